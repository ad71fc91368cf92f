//! A private mail server (MailDev): what it took can be read back.

mod install;
mod mail;

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::certificates::Authority;
use super::ports;
use super::watched::Watched;
use crate::process::scratch;

pub use mail::Mail;

/// The login, where one is asked for.
pub const USER: &str = "postrider";
/// Its password.
pub const PASSWORD: &str = "only-for-tests";
/// It takes a second; a loaded machine with two cores takes ten.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How a server is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// In the clear, or with `STARTTLS`, and without a login.
    #[default]
    Open,
    /// The same with a login, which it takes after `STARTTLS` only.
    Login,
    /// With TLS from the first byte, and a login.
    Tls,
}

/// A server of its own: on loopback, on free ports, in a folder of its own, gone with this process. Its certificate is
/// for `localhost`.
///
/// Mailboxes are called as one likes. `answer-450@…` is refused with that code, `data-552@…` after the content.
#[derive(Debug)]
pub struct Smtp {
    folder: TempDir,
    door: Door,
    smtp: u16,
    web: u16,
    authority: Authority,
    server: Mutex<Option<Watched>>,
}

impl Smtp {
    /// Starts a server and waits until it takes connections.
    pub fn start(door: Door) -> io::Result<Smtp> {
        let folder = scratch("smtp")?;
        let authority = Authority::create(folder.path())?;
        fs::create_dir(folder.path().join("mail"))?;
        let [smtp, web] = ports::free()?;
        let server = Smtp {
            folder,
            door,
            smtp,
            web,
            authority,
            server: Mutex::default(),
        };
        server.start_again()?;
        Ok(server)
    }

    /// Where it takes mail.
    pub fn port(&self) -> u16 {
        self.smtp
    }

    /// Who signed its certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Ends it as a power cut would.
    pub fn kill9(&self) -> io::Result<()> {
        // Dropped, it is killed and waited for.
        match self.server().take() {
            Some(_) => Ok(()),
            None => Err(io::Error::other("it is not running")),
        }
    }

    /// Starts it again, on the mail that it had, and waits until it takes connections.
    pub fn start_again(&self) -> io::Result<()> {
        let place = install::installed()?;
        let mut command = Command::new("node");
        command
            .arg(place.join("server.js"))
            .arg(self.options())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.path().join("log"))?);
        let mut server = Watched::spawn(&mut command, Some(self.folder.path()))?;
        let deadline = Instant::now() + START_LIMIT;
        while !self.answers() {
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            if let Some(status) = server.process().ended()? {
                return Err(io::Error::other(format!("it ended with {status}: {}", log())));
            }
            if Instant::now() > deadline {
                let text = format!("it is not ready after {START_LIMIT:?}: {}", log());
                return Err(io::Error::other(text));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        *self.server() = Some(server);
        Ok(())
    }

    /// Freezes it: it keeps its connections and says nothing.
    pub fn freeze(&self) -> io::Result<()> {
        self.running(|server| server.process().freeze())
    }

    /// Lets it go on.
    pub fn thaw(&self) -> io::Result<()> {
        self.running(|server| server.process().thaw())
    }

    /// Everything it has, in the order in which it came; nothing while it does not run.
    pub fn mails(&self) -> io::Result<Vec<Mail>> {
        let listed = match self.ask("/email") {
            Err(_) if self.server().is_none() => return Ok(Vec::new()),
            listed => listed?,
        };
        mail::read(&listed)
    }

    fn options(&self) -> String {
        let login = (self.door != Door::Open).then_some((USER, PASSWORD));
        let options = serde_json::json!({
            "smtp": self.smtp,
            "web": self.web,
            "ip": "127.0.0.1",
            "mailDirectory": self.folder.path().join("mail"),
            "silent": true,
            "incomingUser": login.map(|(user, _)| user),
            "incomingPass": login.map(|(_, password)| password),
            "incomingSecure": self.door == Door::Tls,
            "incomingCert": self.authority.certificate,
            "incomingKey": self.authority.key,
        });
        options.to_string()
    }

    fn answers(&self) -> bool {
        let takes_mail = TcpStream::connect(("127.0.0.1", self.smtp)).is_ok();
        takes_mail && self.ask("/healthz").is_ok()
    }

    fn ask(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.web))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        // The older version has no chunks in its answers.
        write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            _ => Err(io::Error::other(format!("GET {path}: {head}"))),
        }
    }

    fn running(&self, act: impl FnOnce(&mut Watched) -> io::Result<()>) -> io::Result<()> {
        match &mut *self.server() {
            Some(server) => act(server),
            None => Err(io::Error::other("it is not running")),
        }
    }

    fn server(&self) -> MutexGuard<'_, Option<Watched>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The server process, which may be stopped, killed, frozen and started again.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{MAX_MESSAGE_BYTES, PASSWORD, USER, management};
use crate::process::scratch;
use crate::servers::certificates::Authority;
use crate::servers::ports;
use crate::servers::watched::Watched;

/// The scripts of the package itself: those on the PATH switch the user and speak to the system's own node.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";
const MISSING: &str = "it is not installed; on Debian: apt-get install rabbitmq-server";
/// A loaded machine with two cores takes 20 s.
const START_LIMIT: Duration = Duration::from_secs(90);

/// How long an orderly stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A server of its own: on loopback, on free ports, in a folder of its own, gone with this process.
///
/// It serves the virtual host `/`; [`RabbitMq::add_vhost`] makes further ones.
#[derive(Debug)]
pub struct RabbitMq {
    folder: TempDir,
    /// Whom the files belong to and who runs the server, when that is not this user.
    owner: Option<(u32, u32)>,
    ports: Ports,
    authority: Authority,
    server: Mutex<Option<Watched>>,
    /// The name service of Erlang. Started here, because a node that finds none leaves one behind for ever.
    _names: Watched,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    amqp: u16,
    amqps: u16,
    management: u16,
    distribution: u16,
    names: u16,
}

impl RabbitMq {
    /// Starts a server and waits until it takes connections.
    pub fn start() -> io::Result<RabbitMq> {
        Self::start_for(Use::Tests)
    }

    /// Starts a server whose management pages a person may look at.
    pub fn start_for_people() -> io::Result<RabbitMq> {
        Self::start_for(Use::People)
    }

    fn start_for(by: Use) -> io::Result<RabbitMq> {
        if !Path::new(SERVER).exists() {
            return Err(io::Error::new(io::ErrorKind::NotFound, MISSING));
        }
        let folder = scratch("rabbitmq")?;
        let owner = owner()?;
        let [amqp, amqps, management, distribution, names] = ports::free()?;
        let ports = Ports {
            amqp,
            amqps,
            management,
            distribution,
            names,
        };
        let authority = Authority::create(folder.path())?;
        write_files(folder.path(), ports, &authority, by)?;
        give_away(folder.path(), owner)?;
        let mut epmd = Command::new("epmd");
        epmd.args(["-port", &names.to_string(), "-address", "127.0.0.1"]);
        let names = Watched::spawn(quiet(&mut epmd, owner), None)?;
        let server = RabbitMq {
            folder,
            owner,
            ports,
            authority,
            server: Mutex::default(),
            _names: names,
        };
        server.start_again()?;
        Ok(server)
    }

    /// The url of a virtual host, with the login.
    pub fn url(&self, vhost: &str) -> String {
        self.url_by(&format!("{USER}:{PASSWORD}"), self.port(), vhost)
    }

    /// The url of a virtual host for another login, or another port, such as that of a proxy.
    pub fn url_by(&self, login: &str, port: u16, vhost: &str) -> String {
        format!("amqp://{login}@127.0.0.1:{port}/{}", vhost.replace('/', "%2f"))
    }

    /// The url of a virtual host at the encrypted listener, by a name of the machine.
    pub fn url_tls(&self, host: &str, vhost: &str) -> String {
        let (port, vhost) = (self.ports.amqps, vhost.replace('/', "%2f"));
        format!("amqps://{USER}:{PASSWORD}@{host}:{port}/{vhost}")
    }

    /// The port of the unencrypted listener.
    pub fn port(&self) -> u16 {
        self.ports.amqp
    }

    /// Where the management pages and their API are; the login is that of the virtual hosts.
    pub fn management_url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.ports.management)
    }

    /// Who signed the certificate of the encrypted listener.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Starts it again, on what it had stored, and waits until it takes connections.
    pub fn start_again(&self) -> io::Result<()> {
        let mut command = Command::new(SERVER);
        self.environment(&mut command);
        // Without a shell of its own in between, the process that is started is the server itself.
        command
            .env("RABBITMQ_ALLOW_INPUT", "true")
            .env("RABBITMQ_SERVER_START_ARGS", "-noshell -noinput");
        let mut server = Watched::spawn(quiet(&mut command, self.owner), Some(self.folder.path()))?;
        let deadline = Instant::now() + START_LIMIT;
        while !(self.speaks_amqp() && management::answers(self.ports.management)) {
            if let Some(status) = server.process().ended()? {
                return Err(io::Error::other(format!(
                    "it ended with {status}: {}",
                    self.log()
                )));
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!(
                    "it is not ready after {START_LIMIT:?}: {}",
                    self.log()
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        *self.server() = Some(server);
        Ok(())
    }

    /// Starts it unless it runs.
    pub(super) fn ensure_running(&self) -> io::Result<()> {
        // The lock must be free again before the server is launched.
        let runs = self.server().is_some();
        if runs { Ok(()) } else { self.start_again() }
    }

    /// Stops it as an administrator would: connections are closed, everything is written.
    pub fn stop(&self) -> io::Result<()> {
        self.running(|server| {
            server.process().terminate()?;
            match server.process().wait(STOP_LIMIT)? {
                Some(_) => Ok(()),
                None => Err(io::Error::other(format!("it did not stop within {STOP_LIMIT:?}"))),
            }
        })?;
        self.kill9()
    }

    /// Ends it as a power cut would.
    pub fn kill9(&self) -> io::Result<()> {
        // Dropped, it is killed and waited for.
        match self.server().take() {
            Some(_) => Ok(()),
            None => Err(io::Error::other("it is not running")),
        }
    }

    /// Freezes it: it keeps its connections and says nothing.
    pub fn freeze(&self) -> io::Result<()> {
        self.running(|server| server.process().freeze())
    }

    /// Lets it go on.
    pub fn thaw(&self) -> io::Result<()> {
        self.running(|server| server.process().thaw())
    }

    /// Makes a virtual host that the user may do everything in.
    pub fn add_vhost(&self, name: &str) -> io::Result<()> {
        management::put(self.ports.management, &format!("vhosts/{name}"), "{}")?;
        self.permit(name, ".*")
    }

    /// Makes a user who may do everything in a virtual host, or gives the one that there is another password.
    pub(super) fn user(&self, vhost: &str, name: &str, password: &str) -> io::Result<()> {
        let body = format!("{{\"password\":\"{password}\",\"tags\":\"\"}}");
        management::put(self.ports.management, &format!("users/{name}"), &body)?;
        let body = "{\"configure\":\".*\",\"write\":\".*\",\"read\":\".*\"}";
        management::put(
            self.ports.management,
            &format!("permissions/{vhost}/{name}"),
            body,
        )
    }

    pub(super) fn remove_user(&self, name: &str) -> io::Result<()> {
        management::delete(self.ports.management, &format!("users/{name}"))
    }

    /// Sets, by a pattern, which exchanges the user may publish to.
    pub fn permit(&self, vhost: &str, write: &str) -> io::Result<()> {
        let body = format!("{{\"configure\":\".*\",\"write\":\"{write}\",\"read\":\".*\"}}");
        management::put(
            self.ports.management,
            &format!("permissions/{vhost}/{USER}"),
            &body,
        )
    }

    /// Runs the server's own command line tool, `rabbitmqctl`, which takes seconds.
    pub fn control(&self, arguments: &[&str]) -> io::Result<()> {
        let mut command = Command::new(CONTROL);
        self.environment(&mut command);
        let output = quiet(&mut command, self.owner)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )),
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

    fn environment(&self, command: &mut Command) {
        let folder = self.folder.path();
        command
            .env("HOME", folder)
            .env(
                "RABBITMQ_NODENAME",
                format!("postrider-{}@localhost", self.ports.amqp),
            )
            .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
            .env("RABBITMQ_LOG_BASE", folder.join("log"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
            .env("RABBITMQ_DIST_PORT", self.ports.distribution.to_string())
            .env("ERL_EPMD_PORT", self.ports.names.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1}",
            )
            .env_remove("RABBITMQ_NODE_PORT")
            .current_dir(folder);
    }

    /// Whether the listener answers the first words of the protocol.
    fn speaks_amqp(&self) -> bool {
        let ask = || -> io::Result<()> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.ports.amqp))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            stream.write_all(b"AMQP\x00\x00\x09\x01")?;
            stream.read_exact(&mut [0; 8])
        };
        ask().is_ok()
    }

    /// The end of what the server wrote about itself.
    fn log(&self) -> String {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let files = fs::read_dir(self.folder.path().join("log"));
        let texts = files
            .into_iter()
            .flatten()
            .flatten()
            .map(|file| read(file.path()));
        let text: String = texts.collect();
        let start = text.len().saturating_sub(4_000);
        let start = (start..text.len())
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text[start..].to_owned()
    }
}

/// Whom a server is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Nobody looks at its figures, and collecting them takes time from what is measured.
    Tests,
    /// Rates and lengths of queues are shown, and messages have the size that people expect to be taken.
    People,
}

fn write_files(folder: &Path, ports: Ports, authority: &Authority, by: Use) -> io::Result<()> {
    let cookie = folder.join(".erlang.cookie");
    fs::write(&cookie, "postrider-test-cookie")?;
    // Erlang refuses a cookie that others can read.
    fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))?;
    fs::write(folder.join("enabled_plugins"), "[rabbitmq_management].\n")?;
    let Ports {
        amqp,
        amqps,
        management,
        ..
    } = ports;
    let (ca, certificate, key) = (&authority.authority, &authority.certificate, &authority.key);
    let limits = match by {
        Use::Tests => {
            format!(
                "management_agent.disable_metrics_collector = true\nmax_message_size = {MAX_MESSAGE_BYTES}\n"
            )
        }
        Use::People => String::new(),
    };
    let configuration = format!(
        "listeners.tcp.1 = 127.0.0.1:{amqp}\n\
         listeners.ssl.1 = 127.0.0.1:{amqps}\n\
         ssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
         ssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n\
         management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {management}\n\
         default_user = {USER}\ndefault_pass = {PASSWORD}\n\
         {limits}\
         vm_memory_high_watermark.relative = 0.6\ndisk_free_limit.absolute = 50MB\n\
         log.file.level = warning\nlog.console = false\n",
        ca.display(),
        certificate.display(),
        key.display(),
    );
    fs::write(folder.join("rabbitmq.conf"), configuration)
}

/// Hands the folder and its files to the user who runs the server.
fn give_away(folder: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let Some((user, group)) = owner else {
        return Ok(());
    };
    for entry in fs::read_dir(folder)? {
        chown(entry?.path(), Some(user), Some(group))?;
    }
    // The authority must stay readable for the tests of other users, and root reads everything.
    chown(folder, Some(user), Some(group))
}

/// The user of the package, when the tests run as root: RabbitMQ does not.
fn owner() -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let entry = users.lines().find_map(|line| line.strip_prefix("rabbitmq:"));
    let mut numbers = entry.into_iter().flat_map(|entry| entry.split(':').skip(1));
    let mut number = || numbers.next()?.parse().ok();
    match (number(), number()) {
        (Some(user), Some(group)) => Ok(Some((user, group))),
        _ => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "there is no user rabbitmq; on Debian: apt-get install rabbitmq-server",
        )),
    }
}

fn quiet(command: &mut Command, owner: Option<(u32, u32)>) -> &mut Command {
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

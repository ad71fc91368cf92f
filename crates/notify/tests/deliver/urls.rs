//! Urls that answer as they are told, and remember who called.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use postrider_notify::deliver::PushOptions;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The secret that everything is signed with.
pub(crate) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// Options for urls on this machine.
pub(crate) fn options() -> PushOptions {
    PushOptions::new(SECRET.into()).allow_private(true)
}

/// A call that came.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// The other end of the connection it came by.
    pub(crate) peer: SocketAddr,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// What a call is answered with, given how many came to its path before.
type Script = Arc<dyn Fn(&Call, usize) -> u16 + Send + Sync>;

/// A server of urls.
pub(crate) struct Urls {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    serving: JoinHandle<()>,
}

impl Urls {
    pub(crate) async fn start(script: impl Fn(&Call, usize) -> u16 + Send + Sync + 'static) -> Urls {
        Self::start_at(0, script).await
    }

    pub(crate) async fn start_at(
        port: u16,
        script: impl Fn(&Call, usize) -> u16 + Send + Sync + 'static,
    ) -> Urls {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let script: Script = Arc::new(script);
        let app = Router::new()
            .fallback(routing::post(answer))
            .with_state((Arc::clone(&calls), script))
            .into_make_service_with_connect_info::<SocketAddr>();
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Urls {
            address,
            calls,
            serving,
        }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base())
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls of one path.
    pub(crate) fn of(&self, path: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.path == path);
        calls
    }
}

impl Drop for Urls {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    State((calls, script)): State<(Arc<Mutex<Vec<Call>>>, Script)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call = Call {
        path: uri.path().to_owned(),
        peer,
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
        at: Instant::now(),
    };
    let status = {
        let mut calls = calls.lock().unwrap();
        let before = calls.iter().filter(|known| known.path == call.path).count();
        let status = script(&call, before);
        calls.push(call);
        status
    };
    let code = StatusCode::from_u16(status).unwrap();
    match status {
        302 => (code, [("location", "/elsewhere")]).into_response(),
        429 => (code, [("retry-after", "1")]).into_response(),
        _ => code.into_response(),
    }
}

/// A port that takes connections and never says anything.
pub(crate) async fn black_hole() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let holding = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    (address, holding)
}

/// How long a url of a test may take to answer.
pub(crate) const SOON: Duration = Duration::from_secs(2);

// Command blossom-rs serves the Blossom server of the crate blossom-rs, blobs in memory, on the address given. Uploads
// need a signed authorization.

use blossom::{BlobServer, MemoryBackend};

fn main() {
    let address = std::env::args().nth(1).expect("an address such as 127.0.0.1:3000");
    let server = BlobServer::new_with_auth(MemoryBackend::new(), &format!("http://{address}"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(&address).await.expect("a free port");
        axum::serve(listener, server.router()).await.expect("a server");
    });
}

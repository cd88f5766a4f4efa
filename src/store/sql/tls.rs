//! TLS to a server, whose certificate is always verified.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Kind;

/// Connects by TLS where the server offers it. Trusted are the authorities in a file (PEM); without
/// one those that browsers trust.
///
/// # Errors
/// The file cannot be read, or holds no certificate.
pub(super) fn connector(roots: Option<&Path>) -> Result<MakeRustlsConnect, Kind> {
    let mut store = RootCertStore::empty();
    match roots {
        None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let wrong =
                |what: String| Kind::Untrusted(format!("sslrootcert {}: {what}", file.display()));
            let all = CertificateDer::pem_file_iter(file).map_err(|e| wrong(e.to_string()))?;
            for certificate in all {
                let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
                store.add(certificate).map_err(|e| wrong(e.to_string()))?;
            }
            if store.is_empty() {
                return Err(wrong("holds no certificate".to_owned()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Kind::Untrusted(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

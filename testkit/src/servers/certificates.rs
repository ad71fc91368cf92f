//! A certificate authority for tests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// An authority that nobody trusts, and a certificate of its for `localhost` and no other name.
#[derive(Clone, Debug)]
pub struct Authority {
    /// The authority's own certificate, PEM.
    pub authority: PathBuf,
    /// The server's certificate, PEM.
    pub certificate: PathBuf,
    /// The server's key, PEM.
    pub key: PathBuf,
}

impl Authority {
    /// Makes everything anew, in a folder.
    pub fn create(folder: &Path) -> io::Result<Authority> {
        let made = make().map_err(io::Error::other)?;
        let names = ["authority.pem", "server.pem", "server.key"];
        for (name, pem) in names.iter().zip(&made) {
            fs::write(folder.join(name), pem)?;
        }
        let [authority, certificate, key] = names.map(|name| folder.join(name));
        Ok(Authority {
            authority,
            certificate,
            key,
        })
    }
}

fn make() -> Result<[String; 3], rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority
        .distinguished_name
        .push(DnType::CommonName, "Postrider test authority");
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);

    let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
    server.distinguished_name.push(DnType::CommonName, "localhost");
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &issuer)?;
    Ok([
        authority_certificate.pem(),
        certificate.pem(),
        key.serialize_pem(),
    ])
}

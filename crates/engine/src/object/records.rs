//! What TLS costs a processor: records that are encrypted and decrypted in memory by the cipher of a connection.

use std::sync::OnceLock;

use ring::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305};
use rustls::CipherSuite;

use crate::sys::time::thread_cpu_time;

/// Text of a full record.
const TEXT: usize = 16 << 10;
/// The head of a record of TLS 1.3, which is authenticated with it.
const HEAD: [u8; 5] = [23, 3, 3, 64, 17];
/// CPU time that a measurement takes at least, and records between two looks at it.
const CPU_S: f64 = 0.01;
const AT_ONCE: usize = 16;
/// The ciphers of rustls's suites by what their names have.
static CIPHERS: [(&str, &Algorithm); 3] =
    [("AES_128_GCM", &AES_128_GCM), ("AES_256_GCM", &AES_256_GCM), ("CHACHA20_POLY1305", &CHACHA20_POLY1305)];

/// Text that one thread encrypts or decrypts in a second of its CPU time, in full records that its cache holds: measured once
/// a process for each cipher. None for a cipher that is not known here.
#[must_use]
pub fn bytes_cpu_s(suite: CipherSuite) -> Option<f64> {
    static RATES: [OnceLock<Option<f64>>; 3] = [OnceLock::new(), OnceLock::new(), OnceLock::new()];
    let name = suite.as_str()?;
    let number = CIPHERS.iter().position(|(cipher, _)| name.contains(cipher))?;
    *RATES[number].get_or_init(|| measure(CIPHERS[number].1))
}

fn measure(cipher: &'static Algorithm) -> Option<f64> {
    let key = LessSafeKey::new(UnboundKey::new(cipher, &vec![7; cipher.key_len()]).ok()?);
    let mut record = Vec::with_capacity(TEXT + cipher.tag_len());
    record.resize(TEXT, 7);
    // A buffer that has not been written to and the first use of the instructions take longer.
    pass(&key, &mut record, 0)?;
    let (begin, mut passes) = (cpu_s(), 0);
    loop {
        for _ in 0..AT_ONCE {
            passes += 1;
            pass(&key, &mut record, passes)?;
        }
        let spent = cpu_s() - begin;
        if spent >= CPU_S {
            return Some((2 * TEXT) as f64 * passes as f64 / spent);
        }
    }
}

/// Encrypts a record and decrypts it again, in its place.
fn pass(key: &LessSafeKey, record: &mut Vec<u8>, number: u64) -> Option<()> {
    let nonce = || {
        let mut bytes = [0; 12];
        bytes[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(bytes)
    };
    key.seal_in_place_append_tag(nonce(), Aad::from(HEAD), record).ok()?;
    key.open_in_place(nonce(), Aad::from(HEAD), record).ok()?;
    record.truncate(TEXT);
    Some(())
}

fn cpu_s() -> f64 {
    let spent = thread_cpu_time();
    spent.user_s + spent.system_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_suite_of_rustls_has_its_cost() {
        for suite in rustls::crypto::ring::ALL_CIPHER_SUITES {
            let rate = bytes_cpu_s(suite.suite()).unwrap();
            assert!(rate > 1e6 && Some(rate) == bytes_cpu_s(suite.suite()), "{suite:?}: {rate}");
        }
        assert_eq!(bytes_cpu_s(CipherSuite::TLS_NULL_WITH_NULL_NULL), None);
    }

    #[test]
    fn a_record_is_whole_after_each_pass() {
        for (_, cipher) in CIPHERS {
            let key = LessSafeKey::new(UnboundKey::new(cipher, &vec![1; cipher.key_len()]).unwrap());
            let text: Vec<u8> = (0..TEXT).map(|at| at as u8).collect();
            let mut record = text.clone();
            assert!(pass(&key, &mut record, 1).is_some() && record == text);
        }
    }
}

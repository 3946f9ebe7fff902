//! What a test needs of this machine: what is missing is no failure, but where everything has to be there.

/// Says that this machine lacks something, and fails where `HWDYNO_REQUIRE_PEERS=1` says that it must have it.
pub fn absent(what: &str) {
    assert!(std::env::var("HWDYNO_REQUIRE_PEERS").as_deref() != Ok("1"), "this machine must have {what}");
    eprintln!("left out: this machine lacks {what}");
}

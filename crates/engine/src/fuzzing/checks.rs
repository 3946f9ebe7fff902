//! What every reader must keep to, and how an input is parted.

use crate::contract::error::LONGEST_ERROR;

/// Whether an input was accepted; what it is refused by must be one short line.
pub fn accepted<T, E: ToString>(outcome: Result<T, E>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => {
            let says = error.to_string();
            assert!(!says.trim().is_empty(), "it is refused without a word");
            assert!(!says.contains(|c: char| c.is_control()), "not one line: {says:?}");
            assert!(says.chars().count() <= LONGEST_ERROR, "{} bytes: {:.100}", says.len(), says);
            false
        }
    }
}

/// The input up to the first line end, and what follows it.
pub fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or(&[]))
}

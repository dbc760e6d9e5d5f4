//! The smallest sequence that still fails.

use std::fmt;

/// Removes all `operations` that `fails` does not need: first long runs, then single operations, until
/// none can be removed or `attempts` are used up.
pub fn shrink<T: Clone>(
    operations: &[T],
    mut attempts: u32,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut kept = operations.to_vec();
    let mut piece = kept.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut changed = false;
        while at < kept.len() && attempts > 0 {
            let end = (at + piece).min(kept.len());
            let rest = [&kept[..at], &kept[end..]].concat();
            attempts -= 1;
            if !rest.is_empty() && fails(&rest) {
                kept = rest;
                changed = true;
            } else {
                at = end;
            }
        }
        if attempts == 0 || (piece == 1 && !changed) {
            return kept;
        }
        piece = piece.div_ceil(2);
    }
}

/// Returns the kind of failure of a message: its words without numbers and without the contents of braces. A
/// shrunk sequence must fail in the same way as the original.
#[must_use]
pub fn kind_of_failure(what: &str) -> String {
    let mut depth = 0_u32;
    let kept = what.chars().filter(|character| {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => return depth == 0 && (character.is_alphabetic() || *character == ' '),
        }
        false
    });
    kept.take(60).collect()
}

/// The maximum length of a printed operation: values of attributes may be long.
const SHOWN_CHARACTERS: usize = 200;

/// A numbered list of operations, for a message.
#[derive(Debug)]
pub struct Listing<'a, T>(pub &'a [T]);

impl<T: fmt::Debug> fmt::Display for Listing<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, operation) in self.0.iter().enumerate() {
            let text = format!("{operation:?}");
            let shown = text.get(..SHOWN_CHARACTERS).unwrap_or(&text);
            writeln!(f, "  {number:3} {shown}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Operation, Slot};

    fn close(slot: u8) -> Operation {
        Operation::Close { slot: Slot(slot) }
    }

    #[test]
    fn kind_of_failure_distinguishes_operations_and_errors() {
        let kind = |text: &str| kind_of_failure(text);
        let unlink =
            kind("operation 7 Unlink { at: /p }: Err(Os { code: 21 }): inode 5: is a directory");
        assert_eq!(
            unlink,
            kind(
                "operation 42 Unlink { at: /q/r }: Err(Os { code: 20 }): inode 513: is a directory"
            )
        );
        assert_ne!(unlink, kind("operation 7 Unlink { at: /p }: Ok(\"done\")"));
    }

    #[test]
    fn shrink_keeps_only_the_operations_that_cause_the_failure() {
        let operations: Vec<_> = (0..100).map(close).collect();
        let needed = [close(7), close(63), close(64)];
        let smallest = shrink(&operations, 1000, |rest| {
            needed.iter().all(|operation| rest.contains(operation))
        });
        assert_eq!(smallest, needed);
    }
}

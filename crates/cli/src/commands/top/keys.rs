//! The keys of the view.

use super::state::Action;
use crate::args::top::Page;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The number of rows by which Page Up and Page Down move the mark.
const PAGE_ROWS: isize = 10;

/// Returns the action that a key requests.
pub(super) fn action(key: KeyEvent) -> Option<Action> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Action::Leave,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char('q') => Action::Leave,
        KeyCode::Esc => Action::Close,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Action::Help,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('+' | '=') => Action::Slower,
        KeyCode::Char('-') => Action::Faster,
        KeyCode::Char('s') => Action::SortNext(1),
        KeyCode::Char('S') => Action::SortNext(-1),
        KeyCode::Char('i') => Action::Reverse,
        KeyCode::Char('r') => Action::Reset,
        KeyCode::Char(digit) => Action::Show(Page::of_key(digit)?),
        KeyCode::Right | KeyCode::Tab => Action::Turn(1),
        KeyCode::Left | KeyCode::BackTab => Action::Turn(Page::ALL.len() - 1),
        KeyCode::Down => Action::Move(1),
        KeyCode::Up => Action::Move(-1),
        KeyCode::PageDown => Action::Move(PAGE_ROWS),
        KeyCode::PageUp => Action::Move(-PAGE_ROWS),
        KeyCode::Home => Action::Move(isize::MIN),
        KeyCode::End => Action::Move(isize::MAX),
        KeyCode::Enter => Action::Enter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::CacheKind;

    #[test]
    fn keys_request_actions() {
        let press = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        for (code, expected) in [
            (KeyCode::Char('q'), Some(Action::Leave)),
            (KeyCode::Esc, Some(Action::Close)),
            (KeyCode::Char('?'), Some(Action::Help)),
            (KeyCode::Char(' '), Some(Action::Pause)),
            (KeyCode::Char('='), Some(Action::Slower)),
            (KeyCode::Char('-'), Some(Action::Faster)),
            (KeyCode::Char('S'), Some(Action::SortNext(-1))),
            (KeyCode::Char('3'), Some(Action::Show(Page::Files))),
            (
                KeyCode::Char('0'),
                Some(Action::Show(Page::Cache(CacheKind::Inode))),
            ),
            (KeyCode::Tab, Some(Action::Turn(1))),
            (KeyCode::BackTab, Some(Action::Turn(9))),
            (KeyCode::Up, Some(Action::Move(-1))),
            (KeyCode::Enter, Some(Action::Enter)),
            (KeyCode::Char('c'), None),
            (KeyCode::F(2), None),
        ] {
            assert_eq!(press(code), expected, "{code:?}");
        }
        let control = |key| action(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL));
        assert_eq!(control('c'), Some(Action::Leave));
        assert_eq!(control('s'), None);
    }
}

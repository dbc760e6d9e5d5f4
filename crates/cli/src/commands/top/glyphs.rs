//! The characters that the view draws with: block elements if the terminal can show them, and ASCII otherwise.

use std::ffi::OsString;

/// The characters of graphs, rules and marks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Glyphs {
    /// The levels of a cell of a graph. The first level is a value of 0, the last a full cell.
    pub levels: [char; 8],
    /// The line after the title of a pane.
    pub rule: char,
    /// Stands for the part of a long text that does not fit.
    pub cut: char,
    /// Marks the column by which a table is sorted: largest first, and smallest first.
    pub descending: char,
    pub ascending: char,
    /// The used and the free part of a meter.
    pub used: char,
    pub free: char,
}

const BLOCKS: Glyphs = Glyphs {
    levels: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
    rule: '─',
    cut: '…',
    descending: '▼',
    ascending: '▲',
    used: '█',
    free: '░',
};

const ASCII: Glyphs = Glyphs {
    levels: ['_', '.', ':', '-', '=', '+', '*', '#'],
    rule: '-',
    cut: '~',
    descending: 'v',
    ascending: '^',
    used: '#',
    free: '-',
};

impl Glyphs {
    pub(super) const BLOCKS: &'static Self = &BLOCKS;
    pub(super) const ASCII: &'static Self = &ASCII;

    /// Chooses the glyphs for a terminal. The locale names the character set, as for other programs. The console
    /// of Linux has no font with all block elements.
    pub(super) fn for_environment(variable: impl Fn(&str) -> Option<OsString>) -> &'static Self {
        let text = |name: &str| {
            let value = variable(name)?.to_string_lossy().to_ascii_lowercase();
            (!value.is_empty()).then_some(value)
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text);
        let is_utf8 = locale.is_some_and(|it| it.contains("utf-8") || it.contains("utf8"));
        if is_utf8 && text("TERM").as_deref() != Some("linux") {
            Self::BLOCKS
        } else {
            Self::ASCII
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_need_utf8_locale_and_fonts() {
        let chosen = |variables: &[(&str, &str)]| {
            Glyphs::for_environment(|name| {
                let found = variables.iter().find(|(of, _)| *of == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        for (variables, glyphs) in [
            (&[][..], Glyphs::ASCII),
            (&[("LANG", "en_GB.UTF-8")], Glyphs::BLOCKS),
            (&[("LANG", "C.utf8"), ("LC_ALL", "")], Glyphs::BLOCKS),
            (&[("LANG", "C.UTF-8"), ("LC_ALL", "C")], Glyphs::ASCII),
            (&[("LANG", "sv_SE")], Glyphs::ASCII),
            (&[("LC_CTYPE", "C.UTF-8"), ("TERM", "linux")], Glyphs::ASCII),
        ] {
            assert_eq!(chosen(variables), glyphs, "{variables:?}");
        }
    }
}

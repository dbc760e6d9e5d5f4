//! The blocks of code on a page in Markdown.

/// Returns the language and the lines of each block of `page`.
pub fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').unwrap_or((block, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_languages_and_lines() {
        let page = "a\n```sh\nb\n\nc\n```\n```d\n```\n\n```\ne\n```\n";
        let expected = [("sh", "b\n\nc"), ("d", ""), ("", "e")];
        assert_eq!(blocks(page).collect::<Vec<_>>(), expected);
    }
}

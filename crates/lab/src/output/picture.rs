//! Helpers for tests of pictures: find the texts in an SVG plot, and their positions.

/// Width of a letter relative to the size of the font. Most letters are narrower.
const LETTER: f64 = 0.6;

/// A text of a picture.
struct Text<'a> {
    /// The attributes of its element.
    tag: &'a str,
    /// The text, with escapes.
    content: &'a str,
}

/// Returns the texts of a picture, in order.
pub(crate) fn texts(svg: &str) -> Vec<&str> {
    all(svg).map(|text| text.content).collect()
}

/// Asserts that the picture has texts, and that all of them are inside of it.
pub(crate) fn expect_texts_inside(svg: &str) {
    let picture = svg.lines().next().unwrap();
    let [width, height] = ["width", "height"].map(|name| number(picture, name));
    for text in all(svg) {
        let [left, top, right, bottom] = text.ends();
        assert!(
            left >= 0.0 && top >= 0.0 && right <= width && bottom <= height,
            "{:?} extends from {left}, {top} to {right}, {bottom} of {width}, {height}",
            text.content
        );
    }
    assert!(all(svg).next().is_some(), "no texts: {picture}");
}

fn all(svg: &str) -> impl Iterator<Item = Text<'_>> {
    let lines = svg.lines().zip(svg.lines().skip(1));
    let texts = lines.filter(|(tag, _)| tag.starts_with("<text"));
    texts.map(|(tag, content)| Text { tag, content })
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = format!(" {name}=\"");
    let (_, rest) = tag.split_once(&start)?;
    rest.split_once('"').map(|(value, _)| value)
}

fn number(tag: &str, name: &str) -> f64 {
    attribute(tag, name).unwrap().parse().unwrap()
}

impl Text<'_> {
    /// Returns the left, upper, right and lower end.
    fn ends(&self) -> [f64; 4] {
        let [x, y, size] = ["x", "y", "font-size"].map(|name| number(self.tag, name));
        let escapes = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"];
        let text = escapes
            .iter()
            .fold(self.content.to_owned(), |text, escape| {
                text.replace(escape, "_")
            });
        let letters = u32::try_from(text.chars().count()).unwrap();
        let length = f64::from(letters) * size * LETTER;
        let (before, after) = match attribute(self.tag, "text-anchor").unwrap() {
            "start" => (0.0, length),
            "middle" => (length / 2.0, length / 2.0),
            "end" => (length, 0.0),
            anchor => panic!("{anchor}"),
        };
        let (above, below) = match attribute(self.tag, "dy").unwrap() {
            "0.76em" => (0.0, size),
            "0.5ex" => (size / 2.0, size / 2.0),
            "-0.5ex" => (size, 0.0),
            dy => panic!("{dy}"),
        };
        if self.tag.contains("rotate(270") {
            return [x - above, y - after, x + below, y + before];
        }
        [x - before, y - above, x + after, y + below]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(x: i32, anchor: &str, content: &str) -> String {
        format!(
            "<svg width=\"100\" height=\"50\">\n<text x=\"{x}\" y=\"25\" dy=\"0.5ex\" text-anchor=\"{anchor}\" \
             font-size=\"10\">\n{content}\n</text>\n</svg>\n"
        )
    }

    #[test]
    fn text_that_fits_is_inside() {
        for (x, anchor) in [(0, "start"), (50, "middle"), (100, "end")] {
            let svg = picture(x, anchor, "ten tokens");
            expect_texts_inside(&svg);
            assert_eq!(texts(&svg), ["ten tokens"]);
        }
    }

    #[test]
    #[should_panic(expected = "extends from 50")]
    fn text_past_the_right_end_is_rejected() {
        expect_texts_inside(&picture(50, "start", "ten tokens"));
    }

    #[test]
    #[should_panic(expected = "extends from -10")]
    fn text_past_the_left_end_is_rejected() {
        expect_texts_inside(&picture(50, "end", "ten tokens"));
    }
}

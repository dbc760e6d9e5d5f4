//! Converts a Markdown report to one self-contained HTML file.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

const STYLE: &str = "\
body{max-width:62rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif;color:#222;background:#fff}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{border:1px solid #ccc;padding:.2rem .6rem}
th{background:#f3f3f3}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{background:#f6f6f6;padding:.8rem;overflow-x:auto}
svg{max-width:100%;height:auto}
";

/// Returns the report as a page. `picture` returns the SVG of each image in the Markdown, which is
/// embedded. Headings receive anchors, see [`slug`].
pub(super) fn page(
    title: &str,
    markdown: &str,
    picture: impl Fn(&str) -> Option<String>,
) -> String {
    let mut body = String::new();
    html::push_html(&mut body, events(markdown, picture).into_iter());
    let mut escaped = String::new();
    html::push_html(&mut escaped, std::iter::once(Event::Text(title.into())));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{escaped}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

fn events<'a>(markdown: &'a str, picture: impl Fn(&str) -> Option<String>) -> Vec<Event<'a>> {
    let mut events: Vec<Event<'a>> = Vec::new();
    let mut inside_picture = false;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Image { ref dest_url, .. }) => match picture(dest_url) {
                Some(svg) => {
                    inside_picture = true;
                    events.push(Event::Html(svg.into()));
                }
                None => events.push(event),
            },
            Event::End(TagEnd::Image) if inside_picture => inside_picture = false,
            // Omit the alternative text of an embedded image.
            _ if inside_picture => {}
            Event::End(TagEnd::Heading(level)) => {
                name_heading(&mut events, level);
                events.push(event);
            }
            event => events.push(event),
        }
    }
    events
}

/// Adds the anchor to the heading that just ended.
fn name_heading(events: &mut [Event<'_>], level: HeadingLevel) {
    let Some(at) = events.iter().rposition(
        |event| matches!(event, Event::Start(Tag::Heading { level: l, .. }) if *l == level),
    ) else {
        return;
    };
    let text: String = events[at..]
        .iter()
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(&**text),
            _ => None,
        })
        .collect();
    if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
        *id = Some(CowStr::from(slug(&text)));
    }
}

/// Returns the anchor of a heading, as links inside a Markdown file refer to it.
fn slug(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|c| match c {
            ' ' | '-' => Some('-'),
            c if c.is_alphanumeric() || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_contains_tables_anchors_and_embedded_plots() {
        let markdown = "# A & B\n\n## CPU cost, counted\n\n| a |\n|---|\n| 1 |\n\n![plot](x.svg)\n";
        let page = page("A & B", markdown, |name| {
            (name == "x.svg").then(|| "<svg>picture</svg>".to_owned())
        });
        assert!(page.starts_with("<!DOCTYPE html>"));
        assert!(page.contains("<title>A &amp; B</title>"));
        assert!(page.contains("<h2 id=\"cpu-cost-counted\">"), "{page}");
        assert!(page.contains("<td>1</td>"));
        assert!(page.contains("<svg>picture</svg>"));
        assert!(!page.contains("x.svg") && !page.contains("plot"));
    }

    #[test]
    fn unknown_image_remains_a_link() {
        let page = page("t", "![plot](https://example.org/x.png)", |_| None);
        assert!(page.contains("<img src=\"https://example.org/x.png\" alt=\"plot\""));
    }

    #[test]
    fn slug_is_lower_case_with_dashes() {
        assert_eq!(slug("Sysbench fileio: 2 runs"), "sysbench-fileio-2-runs");
    }
}

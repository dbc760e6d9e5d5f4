//! The rules: patterns that the style rejects, and what to write instead.

use super::text::{Kind, Text};
use regex::Regex;
use std::fmt::{self, Display, Formatter};

/// Files that quote what the rules reject.
pub const EXEMPT_FILES: [&str; 2] = ["xtask/src/prose", "CONTRIBUTING.md"];

/// Terms from other sources that the rules would reject: a pattern in lower case, and the reason to allow it.
const ALLOWED: [(&str, &str); 3] = [
    (r"\b(as )?nobody$", "a name for the Unix user `nobody`"),
    (
        r"\bstand[- ]alone\b",
        "the established term, and a key of results",
    ),
    (r"we boot kernel", "a quotation from a published document"),
];

/// A rule before its patterns are compiled.
struct Definition {
    /// The problem, and what to write instead.
    advice: &'static str,
    /// Matches text in lower case, in which each line break or tab is a space.
    pattern: &'static str,
    /// Established phrases that the pattern also matches.
    except: &'static str,
}

/// Phrases that are rejected in prose and in strings.
const PHRASES: &[Definition] = &[
    Definition {
        advice: "a clause as the subject: name the thread, program or person",
        pattern: r"(^|[.;:|)*-]+ )who(ever)? [a-z' ]+[^?]|\b(by|of|for|to|from|with|than|as|what|and|but|when|where|if|that) who(ever)?\b|\bwhoever\b",
        except: r"\bwho [^.;|]*\?",
    },
    Definition {
        advice: "a pronoun for a person: write `it`, or the noun",
        pattern: r"\b(he|his|him|himself)\b",
        except: "",
    },
    Definition {
        advice: "`behind` for an order: write `after`, `past` or `following`",
        pattern: r"\bbehind\b",
        except: r"behind (a|the|an|one) (lock|mutex|trait|reference|feature|mount|pointer)|(left|lags?|lagging|falls?|fell) behind",
    },
    Definition {
        advice: "`tell`: write `report`, `record`, `notify` or `distinguish`",
        pattern: r"\b(tells?|told|telling)\b",
        except: "",
    },
    Definition {
        advice: "`ask`: write `query`, `request`, `call` or `look up`",
        pattern: r"\b(is|are|was|were|be|been|not|never|what|being) asked\b|\basked (for|of|what|whether|again|once)\b|\basks? (for|what|whether|again)\b",
        except: "",
    },
    Definition {
        advice: "`lie`: write `is`, `is stored` or `is located`",
        pattern: r"\b(lies|lie|lain|lay)\b",
        except: r"lay out",
    },
    Definition {
        advice: "`stand`: write `is`, `is written` or `remains`",
        pattern: r"\b(stands?|stood)\b",
        except: r"stands? (for|in for|alone)",
    },
    Definition {
        advice: "`come`: write `is inserted`, `arrives`, `follows` or `is returned`",
        pattern: r"\b(comes?|came|coming)\b",
        except: r"(comes?|came|coming) (from|with)",
    },
    Definition {
        advice: "`go` and `gone`: write `is evicted`, `is removed`, `continues` or `is sent`",
        pattern: r"\b(gone|went)\b|\bgoes (on|with|away|first|home|again|out)\b|\bgo (on|away|first|home|again)\b",
        except: "",
    },
    Definition {
        advice: "`nobody`: name what does not do it",
        pattern: r"\bnobody\b",
        except: "",
    },
    Definition {
        advice: "a negated noun: say what it is, or use `not`",
        pattern: r"\b\w+ (is|are|was|were) (no|none)\b|\bof (no|none)\b",
        except: r"there (is|are|was|were) (no|none)|(is|are|was|were) no (longer|more|less|fewer|larger|smaller|different|better)|of no (use|effect)",
    },
    Definition {
        advice: "an archaic phrase: use the plain word",
        pattern: r"\b(than which|to and fro|as ever|all the same|but for|that there (is|are)|as many as then|in vain|at all events|one by the other|what there is|be it|nor do|nor does|nor is|nor are|so that not|ere)\b|\bprocessors short\b",
        except: "",
    },
    Definition {
        advice: "`taken for`: write `treated as`",
        pattern: r"\btaken for\b|\btakes? (it|them) for\b",
        except: "",
    },
    Definition {
        advice: "`mend`: write `fix` or `repair`",
        pattern: r"\b(mend|mends|mended|mending)\b",
        except: "",
    },
    Definition {
        advice: "`hear`: write `is notified` or `receives`",
        pattern: r"\b(hears?|heard)\b",
        except: "",
    },
];

/// Phrases that are rejected in strings, since users see them.
const FIRST_PERSON: Definition = Definition {
    advice: "the first person in a text for users",
    pattern: r"\bi('m|'ve|'ll| am| have| can| do| will| would)\b|\b(we|our|ours|my|let us|for us|to us)\b",
    except: "",
};

/// Words that are rejected in names.
const NAMES: Definition = Definition {
    advice: "private slang in a name: use the term of the field",
    pattern: r"\b(tells?|told|telling|asks?|asked|asking|who|whose|whom|comes?|came|goes|gone|went|lies|lain|stands?|stood|behind|nobody|bring in|brought|hears?|heard|mends?|mended)\b",
    except: "",
};

/// A phrase that a rule rejects.
#[derive(Debug)]
pub struct Finding {
    pub line: usize,
    pub rule: &'static str,
    pub phrase: String,
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: '{}': {}", self.line, self.phrase, self.rule)
    }
}

struct Rule {
    advice: &'static str,
    pattern: Regex,
    except: Option<Regex>,
}

impl Rule {
    fn new(definition: &Definition) -> Self {
        let compiled = |pattern| Regex::new(pattern).expect("the rules are valid expressions");
        Self {
            advice: definition.advice,
            pattern: compiled(definition.pattern),
            except: (!definition.except.is_empty()).then(|| compiled(definition.except)),
        }
    }

    /// Returns the places in `text` that this rule rejects.
    fn find<'t>(&self, text: &'t str) -> impl Iterator<Item = (usize, &'t str)> {
        let excepted: Vec<_> = self
            .except
            .iter()
            .flat_map(|except| except.find_iter(text))
            .collect();
        let found = self.pattern.find_iter(text);
        let found = found.filter(move |found| {
            !excepted
                .iter()
                .any(|except| except.start() < found.end() && found.start() < except.end())
        });
        found.map(|found| (found.start(), found.as_str()))
    }
}

/// All rules, compiled.
pub struct Rules {
    phrases: Vec<Rule>,
    first_person: Rule,
    names: Rule,
    allowed: Regex,
    code: Regex,
}

impl Rules {
    pub fn new() -> Self {
        Self {
            phrases: PHRASES.iter().map(Rule::new).collect(),
            first_person: Rule::new(&FIRST_PERSON),
            names: Rule::new(&NAMES),
            allowed: Regex::new(&ALLOWED.map(|(pattern, _)| pattern).join("|"))
                .expect("the allowed terms are valid expressions"),
            code: Regex::new(r"`[^`]*`|\]\([^)]*\)|\{[^{}]*\}").expect("a valid expression"),
        }
    }

    /// Returns what the rules reject in `text`.
    pub fn check(&self, text: &Text) -> Vec<Finding> {
        let (content, rules): (String, Vec<&Rule>) = match text.kind {
            Kind::Name => (words(&text.content), vec![&self.names]),
            Kind::Prose => (self.plain(&text.content), self.phrases.iter().collect()),
            // A literal without a blank is a key, a path or another name that users do not read as prose.
            Kind::Literal if !text.content.trim().contains([' ', '\n']) => return Vec::new(),
            Kind::Literal => {
                let rules = self.phrases.iter().chain([&self.first_person]);
                (self.plain(&text.content), rules.collect())
            }
        };
        let allowed: Vec<_> = self.allowed.find_iter(&content).collect();
        let is_allowed = |start| allowed.iter().any(|term| term.range().contains(&start));
        let found = rules.into_iter().flat_map(|rule| {
            let found = rule.find(&content);
            let found = found.filter(|&(start, _)| !is_allowed(start));
            found.map(|(start, phrase)| Finding {
                line: text.line
                    + text.content[..start.min(text.content.len())]
                        .matches('\n')
                        .count(),
                rule: rule.advice,
                phrase: phrase.trim().to_owned(),
            })
        });
        found.collect()
    }

    /// Returns `text` in lower case and without code. Each byte keeps its position.
    fn plain(&self, text: &str) -> String {
        let blank = |code: &regex::Captures<'_>| "_".repeat(code[0].len());
        let text = self.code.replace_all(text, blank);
        text.to_ascii_lowercase().replace(['\n', '\t'], " ")
    }
}

/// Returns the words of a name in snake case, camel case or capitals, separated by blanks.
fn words(name: &str) -> String {
    let mut words = String::new();
    let mut lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && lower {
            words.push(' ');
        }
        lower = letter.is_lowercase();
        match letter {
            '_' => words.push(' '),
            letter => words.extend(letter.to_lowercase()),
        }
    }
    words
}

//! The form of each request: its fields, their types and bounds. What is missing, unknown or of another type is refused.

use serde_json::{Map, Value};

use crate::Error;

/// Most characters of a text that names something.
const LONGEST_NAME: usize = 255;
/// Most bytes of a path (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// The type of a field.
#[derive(Clone, Copy, Debug)]
enum Form {
    Name,
    Path,
    Whole,
    Flag,
    Table,
    /// Checked by whoever reads it.
    Any,
}

/// Fields by their names.
type Fields = &'static [(&'static str, Form)];

/// Each verb with the fields that it needs and those that it may have, beside `id` and `do`.
const FORMS: [(&str, Fields, Fields); 10] = [
    ("survey", &[], &[("path", Form::Path)]),
    ("kernels", &[], &[]),
    ("snapshot", &[], &[]),
    ("clock", &[], &[]),
    ("stop", &[], &[]),
    ("start", &[("at_ns", Form::Whole)], &[]),
    ("find", &[("tool", Form::Name)], &[]),
    ("files", &[("action", Form::Name), ("path", Form::Path)], &[]),
    (
        "run",
        &[("kernel", Form::Name)],
        &[("parameters", Form::Table), ("hold", Form::Flag), ("start_at_ns", Form::Whole)],
    ),
    (
        "program",
        &[("tool", Form::Name)],
        &[
            ("arguments", Form::Any),
            ("environment", Form::Table),
            ("timeout_s", Form::Any),
            ("files", Form::Table),
            ("hold", Form::Flag),
            ("start_at_ns", Form::Whole),
        ],
    ),
];

/// The number or name of a request, which its answer repeats; null where it has none that is short.
pub fn id(request: &Map<String, Value>) -> Value {
    let short = |id: &&Value| id.is_i64() || id.is_u64() || id.as_str().is_some_and(|id| id.len() <= LONGEST_NAME);
    request.get("id").filter(short).cloned().unwrap_or(Value::Null)
}

/// Checks the fields of a request.
///
/// # Errors
/// [`Error::Usage`] that names the field.
pub fn check(request: &Map<String, Value>) -> Result<(), Error> {
    if request.get("id").is_some_and(|given| !given.is_null() && id(request).is_null()) {
        return Err(Error::usage(format!("id must be a whole number, or a text of at most {LONGEST_NAME} bytes")));
    }
    let verb = request.get("do").and_then(Value::as_str).unwrap_or("");
    let Some((_, needed, others)) = FORMS.iter().find(|(known, ..)| *known == verb) else {
        let known: Vec<_> = FORMS.iter().map(|(known, ..)| *known).collect();
        return Err(Error::usage(format!("unknown verb '{}'; known: {}", shortened(verb), known.join(", "))));
    };
    if let Some((missing, _)) = needed.iter().find(|(name, _)| !request.contains_key(*name)) {
        return Err(Error::usage(format!("{verb} needs a field {missing}")));
    }
    for (name, value) in request.iter().filter(|(name, _)| !matches!(name.as_str(), "id" | "do")) {
        let Some((_, form)) = needed.iter().chain(*others).find(|(known, _)| known == name) else {
            return Err(Error::usage(format!("{verb} has no field '{}'", shortened(name))));
        };
        if !fits(*form, value) {
            return Err(Error::usage(format!("{name} must be {}", described(*form))));
        }
    }
    Ok(())
}

/// A whole number of ns.
///
/// # Errors
/// [`Error::Usage`] where it is none.
pub fn whole(request: &Map<String, Value>, name: &str) -> Result<u64, Error> {
    let value = request.get(name).and_then(Value::as_u64);
    value.ok_or_else(|| Error::usage(format!("{name} must be {}", described(Form::Whole))))
}

fn fits(form: Form, value: &Value) -> bool {
    match form {
        Form::Name => value.as_str().is_some_and(|text| text.len() <= LONGEST_NAME),
        Form::Path => value.as_str().is_some_and(|text| text.len() < LONGEST_PATH && !text.contains('\0')),
        Form::Whole => value.is_u64(),
        Form::Flag => value.is_boolean(),
        Form::Table => value.is_object(),
        Form::Any => true,
    }
}

const fn described(form: Form) -> &'static str {
    match form {
        Form::Name => "a text of at most 255 bytes",
        Form::Path => "a path of less than 4096 bytes, without NUL",
        Form::Whole => "a whole number of ns",
        Form::Flag => "true or false",
        Form::Table => "a table",
        Form::Any => "anything",
    }
}

/// A text of the other end's, short enough for a line.
fn shortened(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

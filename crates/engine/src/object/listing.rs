//! A page of a listing (ListObjectsV2): its keys, its common prefixes, and where the next page begins.

/// What a page has.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Page {
    /// Keys of objects.
    pub keys: Vec<String>,
    /// Their lengths; 0 where none is stated.
    pub sizes: Vec<u64>,
    /// What keys have in common up to the delimiter.
    pub prefixes: Vec<String>,
    /// The token of the next page; none where this is the last.
    pub next: Option<String>,
}

/// Keys of a page, at most: a store gives 1,000.
const MAX_KEYS: usize = 10_000;

/// Reads a page. None where it is no whole listing.
#[must_use]
pub fn read(xml: &[u8]) -> Option<Page> {
    let text = std::str::from_utf8(xml).ok()?;
    let body = between(text, "<ListBucketResult", "</ListBucketResult>")?;
    let mut page = Page::default();
    for entry in elements(body, "Contents") {
        page.keys.push(unescape(elements(entry, "Key").next()?)?);
        page.sizes.push(elements(entry, "Size").next().and_then(|size| size.parse().ok()).unwrap_or(0));
        if page.keys.len() > MAX_KEYS {
            return None;
        }
    }
    for entry in elements(body, "CommonPrefixes") {
        page.prefixes.push(unescape(elements(entry, "Prefix").next()?)?);
        if page.prefixes.len() > MAX_KEYS {
            return None;
        }
    }
    if elements(body, "IsTruncated").next() == Some("true") {
        page.next = Some(unescape(elements(body, "NextContinuationToken").next()?)?);
    }
    Some(page)
}

/// Reads a page of incomplete multipart uploads: the key and the name of each. None where it is no whole listing.
#[must_use]
pub fn read_uploads(xml: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(xml).ok()?;
    let body = between(text, "<ListMultipartUploadsResult", "</ListMultipartUploadsResult>")?;
    let uploads: Option<Vec<_>> = elements(body, "Upload")
        .take(MAX_KEYS)
        .map(|entry| {
            let key = unescape(elements(entry, "Key").next()?)?;
            Some((key, unescape(elements(entry, "UploadId").next()?)?))
        })
        .collect();
    uploads
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let from = text.find(begin)? + begin.len();
    let length = text[from..].rfind(end)?;
    Some(&text[from..from + length])
}

/// The contents of the elements of one name that have no attributes and no child of the same name.
fn elements<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let mut left = text;
    std::iter::from_fn(move || {
        let from = left.find(&begin)? + begin.len();
        let length = left[from..].find(&end)?;
        let found = &left[from..from + length];
        left = &left[from + length + end.len()..];
        Some(found)
    })
}

/// The text of an element: its references are replaced; none where one is unknown.
fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut left = text;
    while let Some((before, after)) = left.split_once('&') {
        plain.push_str(before);
        let (name, behind) = after.split_once(';')?;
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16),
                    None => number.parse(),
                };
                char::from_u32(code.ok()?)?
            }
        });
        left = behind;
    }
    plain.push_str(left);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_keys_and_the_next_ones_token() {
        let xml = b"<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3\"><Prefix>p/</Prefix><IsTruncated>true\
            </IsTruncated><Contents><Key>p/a&amp;b&#xe4;</Key><Size>1</Size></Contents><Contents><Key>p/c</Key></Contents>\
            <CommonPrefixes><Prefix>p/d/</Prefix></CommonPrefixes><NextContinuationToken>t=1</NextContinuationToken>\
            </ListBucketResult>";
        let page = read(xml).unwrap();
        assert_eq!((page.keys, page.prefixes), (vec!["p/a&b\u{e4}".into(), "p/c".into()], vec!["p/d/".to_string()]));
        assert_eq!(page.sizes, [1, 0]);
        assert_eq!(page.next.as_deref(), Some("t=1"));
        assert_eq!(read(b"<ListBucketResult></ListBucketResult>"), Some(Page::default()));
    }

    #[test]
    fn incomplete_uploads_have_their_keys() {
        let xml = b"<ListMultipartUploadsResult><Upload><Key>p/a&amp;b</Key><UploadId>u=</UploadId></Upload></ListMultipartUploadsResult>";
        assert_eq!(read_uploads(xml), Some(vec![("p/a&b".to_string(), "u=".to_string())]));
        assert_eq!(read_uploads(b"<ListMultipartUploadsResult/></ListMultipartUploadsResult>"), Some(vec![]));
        for wrong in [&b"<ListBucketResult></ListBucketResult>"[..], b"<ListMultipartUploadsResult><Upload></Upload>"] {
            assert_eq!(read_uploads(wrong), None);
        }
    }

    #[test]
    fn what_is_cut_off_or_wrong_is_no_page() {
        for xml in [
            &b""[..],
            b"<html></html>",
            b"<ListBucketResult><Contents><Key>a</Key></Contents>",
            b"<ListBucketResult><Contents></Contents></ListBucketResult>",
            b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            b"<ListBucketResult><Contents><Key>&evil;</Key></Contents></ListBucketResult>",
            b"<ListBucketResult><Contents><Key>&#xffffff;</Key></Contents></ListBucketResult>",
            b"<ListBucketResult>\xff</ListBucketResult>",
        ] {
            assert_eq!(read(xml), None, "{}", xml.escape_ascii());
        }
    }
}

//! What the null server reads of a request, what it keeps of objects, and how it answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Keys in a page of a listing.
const PAGE: usize = 1000;
/// Content that is kept, where an object is as small as this.
const MAX_CONTENT: u64 = 4096;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    method: Method,
    /// The path without the query, still encoded.
    path: String,
    query: String,
    /// Bytes of its body.
    pub length: u64,
    /// Bytes of the object in the body.
    object_bytes: u64,
    range: Option<(u64, u64)>,
    closes: bool,
    /// Whether it waits for `100 Continue` before it sends its body.
    pub waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Put,
    Post,
    Head,
    Delete,
}

impl Question {
    /// Reads the head of a request, without the empty line. None where it is none.
    #[must_use]
    pub fn read(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let method = match words.next()? {
            "GET" => Method::Get,
            "PUT" => Method::Put,
            "POST" => Method::Post,
            "HEAD" => Method::Head,
            "DELETE" => Method::Delete,
            _ => return None,
        };
        let target = words.next().filter(|target| target.starts_with('/'))?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut question = Self {
            method,
            path: path.into(),
            query: query.into(),
            length: 0,
            object_bytes: 0,
            range: None,
            closes: false,
            waits: false,
        };
        let mut decoded = None;
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                question.length = value.parse().ok()?;
            } else if name.eq_ignore_ascii_case("x-amz-decoded-content-length") {
                decoded = Some(value.parse().ok()?);
            } else if name.eq_ignore_ascii_case("range") {
                let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
                question.range = Some((first.parse().ok()?, last.parse().ok()?));
            } else if name.eq_ignore_ascii_case("connection") {
                question.closes = value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("expect") {
                question.waits = true;
            }
        }
        question.object_bytes = decoded.unwrap_or(question.length);
        Some(question)
    }

    /// The value of a name in the query, decoded.
    fn value(&self, name: &str) -> String {
        let found = self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        decode(found.unwrap_or_default())
    }
}

/// Replaces what is encoded in a path or a query.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((&byte, behind)) = left.split_first() {
        let code = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| byte == b'%');
        bytes.push(code.unwrap_or(byte));
        left = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The objects by path.
#[derive(Default)]
pub struct Store {
    /// Their bytes, and the content of small ones.
    pub objects: BTreeMap<String, (u64, Vec<u8>)>,
    /// Bytes of each object that was not written; none where it is missing.
    pub every_key: Option<u64>,
    /// Multipart uploads that have not ended, by their names: the path, and the bytes of their parts.
    pub uploads: BTreeMap<String, (String, u64)>,
    /// Uploads that have begun.
    pub begun: u64,
}

/// What follows the head that an answer has written.
pub struct Answered {
    /// Bytes of an object.
    pub body: u64,
    /// Whether the connection ends.
    pub closes: bool,
}

impl Store {
    /// Writes the head of the answer, and the body where it is no object's.
    pub fn answer(&mut self, question: &Question, content: &[u8], head: &mut Vec<u8>) -> Answered {
        let is_bucket = !question.path[1..].trim_end_matches('/').contains('/');
        let mut body = 0;
        match question.method {
            Method::Get if is_bucket && question.query.split('&').any(|name| name == "uploads=") => {
                let page = self.list_uploads(question);
                write_status(head, "200 OK", page.len() as u64);
                head.extend_from_slice(page.as_bytes());
            }
            Method::Get if is_bucket => {
                let page = self.list(question);
                write_status(head, "200 OK", page.len() as u64);
                head.extend_from_slice(page.as_bytes());
            }
            Method::Put | Method::Head if is_bucket => write_status(head, "200 OK", 0),
            Method::Get | Method::Head => body = self.give(question, head),
            Method::Post => self.turn(question, head),
            Method::Put | Method::Delete if question.query.contains("uploadId=") => self.take_part(question, head),
            Method::Put => {
                let kept = if question.object_bytes <= MAX_CONTENT { content.to_vec() } else { Vec::new() };
                self.objects.insert(decode(&question.path), (question.object_bytes, kept));
                write_status(head, "200 OK", 0);
            }
            Method::Delete => {
                self.objects.remove(&decode(&question.path));
                head.extend_from_slice(b"HTTP/1.1 204 No Content\r\n\r\n");
            }
        }
        Answered { body, closes: question.closes }
    }

    /// Begins a multipart upload, or makes its object.
    fn turn(&mut self, question: &Question, head: &mut Vec<u8>) {
        let text = match self.uploads.remove(&question.value("uploadId")) {
            Some((path, bytes)) => {
                self.objects.insert(path, (bytes, Vec::new()));
                "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>".to_string()
            }
            None if question.query == "uploads=" => {
                self.begun += 1;
                let name = format!("upload/{}=", self.begun);
                self.uploads.insert(name.clone(), (decode(&question.path), 0));
                format!("<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>")
            }
            None => return write_missing(head, "NoSuchUpload"),
        };
        write_status(head, "200 OK", text.len() as u64);
        head.extend_from_slice(text.as_bytes());
    }

    /// Takes a part, or ends an upload without an object.
    fn take_part(&mut self, question: &Question, head: &mut Vec<u8>) {
        let name = question.value("uploadId");
        let Some((_, bytes)) = self.uploads.get_mut(&name) else { return write_missing(head, "NoSuchUpload") };
        if question.method == Method::Delete {
            self.uploads.remove(&name);
            head.extend_from_slice(b"HTTP/1.1 204 No Content\r\n\r\n");
        } else {
            *bytes = bytes.saturating_add(question.object_bytes);
            head.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\netag: \"part\"\r\n\r\n");
        }
    }

    fn list_uploads(&self, question: &Question) -> String {
        let bucket = format!("{}/", question.path.trim_end_matches('/'));
        let prefix = question.value("prefix");
        let mut page = String::from("<ListMultipartUploadsResult>");
        for (name, (path, _)) in &self.uploads {
            if let Some(key) = path.strip_prefix(&bucket).filter(|key| key.starts_with(&prefix)) {
                let _ =
                    write!(page, "<Upload><Key>{}</Key><UploadId>{}</UploadId></Upload>", escape(key), escape(name));
            }
        }
        page + "</ListMultipartUploadsResult>"
    }

    fn give(&self, question: &Question, head: &mut Vec<u8>) -> u64 {
        // The lookup is left out where every key has an object, so that the floor has none.
        let known = if self.objects.is_empty() { None } else { self.objects.get(&decode(&question.path)) };
        let kept = known.map_or(&[][..], |(_, content)| content);
        let Some(bytes) = known.map(|(bytes, _)| *bytes).or(self.every_key) else {
            let text = "<Error><Code>NoSuchKey</Code></Error>";
            write_status(head, "404 Not Found", text.len() as u64);
            if question.method == Method::Get {
                head.extend_from_slice(text.as_bytes());
            }
            return 0;
        };
        let (status, first, length) = match question.range {
            Some((first, last)) if first < bytes && first <= last => {
                ("206 Partial Content", first, last.min(bytes - 1) - first + 1)
            }
            Some(_) => {
                write_status(head, "416 Range Not Satisfiable", 0);
                return 0;
            }
            None => ("200 OK", 0, bytes),
        };
        write_status(head, status, length);
        if question.method == Method::Head {
            return 0;
        }
        if kept.len() as u64 == bytes {
            head.extend_from_slice(&kept[first as usize..(first + length) as usize]);
            return 0;
        }
        length
    }

    fn list(&self, question: &Question) -> String {
        let bucket = format!("{}/", question.path.trim_end_matches('/'));
        let (prefix, delimiter) = (question.value("prefix"), question.value("delimiter"));
        let (token, most) = (question.value("continuation-token"), question.value("max-keys"));
        let most = most.parse().unwrap_or(PAGE).min(PAGE);
        let mut page = String::from("<ListBucketResult>");
        let (mut count, mut last_prefix, mut next) = (0, String::new(), String::new());
        for (path, (bytes, _)) in &self.objects {
            let Some(key) = path.strip_prefix(&bucket).filter(|key| key.starts_with(&prefix)) else { continue };
            if !token.is_empty() && key <= token.as_str() {
                continue;
            }
            let end = if delimiter.is_empty() { None } else { key[prefix.len()..].find(&delimiter) };
            let common = end.map(|end| &key[..prefix.len() + end + delimiter.len()]);
            if common == Some(last_prefix.as_str()) {
                continue;
            }
            if count == most {
                let _ = write!(
                    page,
                    "<IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken>",
                    escape(&next)
                );
                break;
            }
            count += 1;
            next = key.to_string();
            match common {
                Some(common) => {
                    last_prefix = common.to_string();
                    next = format!("{common}\u{10ffff}");
                    let _ = write!(page, "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escape(common));
                }
                None => {
                    let _ = write!(page, "<Contents><Key>{}</Key><Size>{bytes}</Size></Contents>", escape(key));
                }
            }
        }
        page + "</ListBucketResult>"
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn write_missing(head: &mut Vec<u8>, code: &str) {
    let text = format!("<Error><Code>{code}</Code></Error>");
    write_status(head, "404 Not Found", text.len() as u64);
    head.extend_from_slice(text.as_bytes());
}

fn write_status(head: &mut Vec<u8>, status: &str, length: u64) {
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(status.as_bytes());
    head.extend_from_slice(b"\r\ncontent-length: ");
    crate::object::keys::write_number(length, head);
    head.extend_from_slice(b"\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_listed_page_by_page() {
        let mut store = Store::default();
        for key in ["a/1", "a/2", "b&c", "d"] {
            let put = format!("PUT /bucket/{key} HTTP/1.1\r\ncontent-length: 3");
            let mut head = Vec::new();
            store.answer(&Question::read(put.as_bytes()).unwrap(), b"xyz", &mut head);
            assert!(head.starts_with(b"HTTP/1.1 200 OK"));
        }
        let mut listed = |query: &str| {
            let mut head = Vec::new();
            let question = Question::read(format!("GET /bucket?{query} HTTP/1.1\r\nhost: x").as_bytes()).unwrap();
            store.answer(&question, b"", &mut head);
            let from = head.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            crate::object::listing::read(&head[from..]).unwrap()
        };
        let page = listed("delimiter=%2F&list-type=2&max-keys=2&prefix=");
        assert_eq!((page.prefixes, page.keys), (vec!["a/".to_string()], vec!["b&c".to_string()]));
        assert_eq!(page.sizes, [3]);
        let token = page.next.unwrap().replace('&', "%26");
        assert_eq!(listed(&format!("continuation-token={token}&delimiter=%2F")).keys, ["d"]);
        assert_eq!(listed("prefix=a%2F").keys, ["a/1", "a/2"]);
    }

    #[test]
    fn ranges_and_missing_keys_have_their_answers() {
        let mut store = Store::default();
        let mut answer = |text: &str, every_key: Option<u64>| {
            store.every_key = every_key;
            let mut head = Vec::new();
            let body = store.answer(&Question::read(text.as_bytes()).unwrap(), b"", &mut head).body;
            (String::from_utf8(head).unwrap().split("\r\n").next().unwrap().to_string(), body)
        };
        assert_eq!(answer("GET /b/k HTTP/1.1", None).0, "HTTP/1.1 404 Not Found");
        assert_eq!(answer("GET /b/k HTTP/1.1", Some(9)).1, 9);
        assert_eq!(answer("GET /b/k HTTP/1.1\r\nrange: bytes=2-4", Some(9)).1, 3);
        assert_eq!(answer("GET /b/k HTTP/1.1\r\nrange: bytes=9-12", Some(9)).0, "HTTP/1.1 416 Range Not Satisfiable");
        assert_eq!(answer("HEAD /b/k HTTP/1.1", Some(9)).1, 0);
        for wrong in ["", "PATCH /b HTTP/1.1", "GET b HTTP/1.1", "GET /b HTTP/1.1\r\nno colon"] {
            assert_eq!(Question::read(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

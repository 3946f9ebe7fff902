//! What an object store sends, and what a null server and the files of AWS are read as.

/// The head of a response, and the code of the error behind it.
pub mod object_response {
    use crate::object::failure::{text_of, Failure};
    use crate::object::response::{parse, Parsed};

    /// A head is within the input, and the same again when it comes in pieces.
    pub fn read(input: &[u8]) -> bool {
        let Parsed::Whole(head) = parse(input) else {
            return false;
        };
        assert!(head.bytes <= input.len() && (100..=599).contains(&head.status));
        assert_eq!(parse(&input[..head.bytes]), Parsed::Whole(head));
        assert_eq!(parse(&input[..head.bytes - 1]), Parsed::Partial);
        let code = text_of(&input[head.bytes..], "Code");
        assert!(code.len() <= input.len() && !code.windows(2).any(|two| two == b"</"));
        let is_success = (200..300).contains(&head.status);
        assert_eq!(Failure::of_response(head.status, code).is_none(), is_success);
        true
    }

    /// Responses with an object, with chunks and with an error.
    pub fn seeds() -> Vec<Vec<u8>> {
        let texts = [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx-amz-checksum-crc32c: 4waSgw==\r\n\r\nabc",
            "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Slow Down\r\nContent-Length: 36\r\n\r\n<Error><Code>SlowDown</Code></Error>",
        ];
        texts.map(|text| text.as_bytes().to_vec()).into()
    }
}

/// A page of a listing.
pub mod object_listing {
    use crate::object::listing;

    /// Its keys are texts, and so are those of uploads.
    pub fn read(input: &[u8]) -> bool {
        if let Some(uploads) = listing::read_uploads(input) {
            assert!(uploads.len() <= input.len());
            return true;
        }
        let Some(page) = listing::read(input) else {
            return false;
        };
        assert!(page.keys.len() + page.prefixes.len() <= input.len());
        true
    }

    /// One with keys and prefixes, and the last one.
    pub fn seeds() -> Vec<Vec<u8>> {
        let texts = [
            "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a&amp;&#x41;</Key></Contents><CommonPrefixes>\
             <Prefix>b/</Prefix></CommonPrefixes><NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
            "<ListMultipartUploadsResult><Upload><Key>a</Key><UploadId>b=</UploadId></Upload></ListMultipartUploadsResult>",
            "<ListBucketResult xmlns=\"x\"><IsTruncated>false</IsTruncated></ListBucketResult>",
        ];
        texts.map(|text| text.as_bytes().to_vec()).into()
    }
}

/// A request to the null server.
pub mod object_request {
    use std::collections::BTreeMap;

    use crate::object::null_answers::{Question, Store};
    use crate::object::response::{parse, Parsed};

    /// The answer has a head that a client can read.
    pub fn read(input: &[u8]) -> bool {
        let Some(question) = Question::read(input) else {
            return false;
        };
        for every_key in [None, Some(1000)] {
            let mut store = Store {
                objects: BTreeMap::from([("/b/k".into(), (3, b"xyz".to_vec()))]),
                every_key,
                ..Store::default()
            };
            let mut head = Vec::new();
            let answered = store.answer(&question, b"content", &mut head);
            assert!(matches!(parse(&head), Parsed::Whole(_)), "{}", head.escape_ascii());
            assert!(answered.body <= 1000);
        }
        true
    }

    /// A request of each method.
    pub fn seeds() -> Vec<Vec<u8>> {
        let texts = [
            "GET /b/k%20x HTTP/1.1\r\nhost: x\r\nrange: bytes=0-9",
            "GET /b?list-type=2&max-keys=2&prefix=k&delimiter=%2F HTTP/1.1\r\nhost: x",
            "PUT /b/k HTTP/1.1\r\ncontent-length: 7\r\nx-amz-decoded-content-length: 3\r\nexpect: 100-continue",
            "HEAD /b HTTP/1.1\r\nconnection: close",
            "DELETE /b/k HTTP/1.1",
            "POST /b/k?uploads= HTTP/1.1",
            "PUT /b/k?partNumber=1&uploadId=x%2F HTTP/1.1\r\ncontent-length: 7",
            "GET /b?uploads=&prefix=k HTTP/1.1",
        ];
        texts.map(|text| text.as_bytes().to_vec()).into()
    }
}

/// A file of AWS's profiles.
pub mod aws_profile {
    use crate::object::credentials::read_section;

    /// Its keys are in lower case.
    pub fn read(input: &[u8]) -> bool {
        let section = read_section(&String::from_utf8_lossy(input), "default");
        assert!(section.keys().all(|key| !key.bytes().any(|byte| byte.is_ascii_uppercase())));
        !section.is_empty()
    }

    /// A file with comments, an indented part and another profile.
    pub fn seeds() -> Vec<Vec<u8>> {
        vec![b"# x\n[default]\nAWS_access_key_id = A\nregion=r\ns3 =\n  addressing_style = path\n[profile x]\nregion=q\n".to_vec()]
    }
}

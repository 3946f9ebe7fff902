//! The credentials of an object store, as every S3 tool finds them: the environment, then the files in `~/.aws`.
//!
//! They are read by the process that signs, so they are in no parameter, no Run and no error.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::contract::kernel::Error;

/// A text that no format shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the signature.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Who signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key: Secret,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_key: Secret,
    /// `AWS_SESSION_TOKEN`; empty for a lasting key.
    pub token: Secret,
    /// `AWS_REGION`.
    pub region: String,
}

/// Bytes of a file in `~/.aws` that are read.
const MAX_FILE: u64 = 1 << 20;
const DEFAULT_REGION: &str = "us-east-1";
const HELP: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of ~/.aws by AWS_PROFILE";

type Section = BTreeMap<String, String>;

impl Credentials {
    /// Those of this process.
    pub fn find(region: &str) -> Result<Self, Error> {
        Self::find_in(region, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Any, for a null server, which checks none.
    #[must_use]
    pub fn of_null_server() -> Self {
        let secret = |text: &str| Secret(text.into());
        let (access_key, secret_key) = (secret("hwdyno"), secret("hwdyno"));
        Self { access_key, secret_key, token: Secret::default(), region: DEFAULT_REGION.into() }
    }

    /// Those of a published example.
    #[cfg(test)]
    pub fn of_texts(access_key: &str, secret_key: &str, region: &str) -> Self {
        let secret = |text: &str| Secret(text.into());
        Self {
            access_key: secret(access_key),
            secret_key: secret(secret_key),
            token: Secret::default(),
            region: region.into(),
        }
    }

    fn find_in(region: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let profile = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        let name = profile.clone().unwrap_or_else(|| "default".into());
        let mut known = section_of(file_of(variable, "AWS_CONFIG_FILE", "config").as_deref(), &config_title(&name))?;
        known.extend(section_of(file_of(variable, "AWS_SHARED_CREDENTIALS_FILE", "credentials").as_deref(), &name)?);
        let region = Some(region.to_string())
            .filter(|region| !region.is_empty())
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| known.get("region").cloned())
            .unwrap_or_else(|| DEFAULT_REGION.into());
        let found = match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(key), Some(secret)) => (key, secret, variable("AWS_SESSION_TOKEN")),
            (Some(_), None) | (None, Some(_)) => {
                return Err(Error::usage(
                    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together; set both or neither",
                ));
            }
            (None, None) => match (known.remove("aws_access_key_id"), known.remove("aws_secret_access_key")) {
                (Some(key), Some(secret)) => (key, secret, known.remove("aws_session_token")),
                _ if known.contains_key("credential_process") || known.keys().any(|key| key.starts_with("sso_")) => {
                    return Err(Error::usage(format!(
                        "the profile '{name}' gets its credentials from another program; \
                         run `eval \"$(aws configure export-credentials --profile {name} --format env)\"` first"
                    )));
                }
                _ if profile.is_some() => {
                    return Err(Error::usage(format!("the profile '{name}' has no credentials in ~/.aws; {HELP}")));
                }
                _ => return Err(Error::usage(format!("there are no credentials for the object store; {HELP}"))),
            },
        };
        let (key, secret, token) = (found.0, found.1, found.2.unwrap_or_default());
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if ![&key, &secret, &token].into_iter().all(|text| is_plain(text)) {
            return Err(Error::usage("the credentials have characters that no HTTP header takes; export them again"));
        }
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(Error::usage("the region has characters that no region has; use a name such as us-east-1"));
        }
        Ok(Self { access_key: Secret(key), secret_key: Secret(secret), token: Secret(token), region })
    }
}

/// The head of a profile's section in `config`.
fn config_title(profile: &str) -> String {
    if profile == "default" {
        profile.into()
    } else {
        format!("profile {profile}")
    }
}

fn file_of(variable: &dyn Fn(&str) -> Option<String>, name: &str, file: &str) -> Option<PathBuf> {
    let in_home = || variable("HOME").map(|home| Path::new(&home).join(".aws").join(file));
    variable(name).map(PathBuf::from).or_else(in_home)
}

/// The keys of a section of a file; none where there is no such file.
fn section_of(path: Option<&Path>, title: &str) -> Result<Section, Error> {
    let Some(path) = path else { return Ok(Section::new()) };
    match std::fs::metadata(path) {
        Ok(about) if !about.is_file() || about.len() > MAX_FILE => {
            return Err(Error::usage(format!("{} is no file of AWS profiles", path.display())));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Section::new()),
        Err(error) => return Err(Error::machine(format!("read {}", path.display()), &error)),
    }
    let bytes = std::fs::read(path).map_err(|error| Error::machine(format!("read {}", path.display()), &error))?;
    Ok(read_section(&String::from_utf8_lossy(&bytes), title))
}

/// The keys of a section `[title]`, in lower case. A later section of that title adds to the first.
pub fn read_section(text: &str, title: &str) -> Section {
    let (mut section, mut inside) = (Section::new(), false);
    for line in text.lines() {
        // An indented line belongs to the key before it, such as `s3 =`.
        if line.starts_with([' ', '\t']) || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name.split_whitespace().eq(title.split_whitespace());
        } else if let (true, Some((key, value))) = (inside, line.split_once('=')) {
            section.insert(key.trim().to_ascii_lowercase(), value.trim().to_string());
        }
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::scratch::Scratch;

    fn found(pairs: &[(&str, &str)]) -> Result<Credentials, String> {
        let variable =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string());
        Credentials::find_in("", &variable).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_comes_before_the_files() {
        let folder = Scratch::new("credentials");
        let (keys, config) = (folder.path("credentials"), folder.path("config"));
        std::fs::write(&keys, "[default]\naws_access_key_id = A\naws_secret_access_key=B\n[x]\naws_access_key_id=C\n")
            .unwrap();
        std::fs::write(
            &config,
            "[default]\nregion = r-1\n[profile x]\nregion=r-2\ns3 =\n  aws_secret_access_key = N\n",
        )
        .unwrap();
        let files =
            [("AWS_SHARED_CREDENTIALS_FILE", keys.to_str().unwrap()), ("AWS_CONFIG_FILE", config.to_str().unwrap())];
        let by_file = found(&files).unwrap();
        assert_eq!((by_file.access_key.reveal(), by_file.region.as_str()), ("A", "r-1"));
        let environment = [("AWS_ACCESS_KEY_ID", "K"), ("AWS_SECRET_ACCESS_KEY", "S"), ("AWS_REGION", "eu-1")];
        let first = found(&[&files[..], &environment].concat()).unwrap();
        assert_eq!((first.access_key.reveal(), first.region.as_str()), ("K", "eu-1"));
        let other = found(&[&files[..], &[("AWS_PROFILE", "x")]].concat()).unwrap_err();
        assert!(other.contains("the profile 'x' has no credentials"), "{other}");
    }

    #[test]
    fn no_text_shows_a_secret() {
        let pairs = [("AWS_ACCESS_KEY_ID", "AKHUNTER"), ("AWS_SECRET_ACCESS_KEY", "hun\nter")];
        let error = found(&pairs).unwrap_err();
        assert!(error.contains("no HTTP header takes") && !error.contains("hun") && !error.contains("AKHUNTER"));
        let right = found(&[("AWS_ACCESS_KEY_ID", "AKHUNTER"), ("AWS_SECRET_ACCESS_KEY", "hunter2")]).unwrap();
        let shown = format!("{right:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("AKHUNTER"), "{shown}");
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(found(&[]).unwrap_err().contains("there are no credentials"));
        assert!(found(&[("AWS_ACCESS_KEY_ID", "A")]).unwrap_err().contains("belong together"));
        assert!(found(&[("HOME", "/dev/null")]).is_err());
    }
}

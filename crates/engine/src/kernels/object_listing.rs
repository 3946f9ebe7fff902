//! Looks at the objects below a prefix: how many there are and what their names end with, before anything is planned;
//! or at the way to them alone.

use std::collections::BTreeMap;

use serde_json::json;

use crate::contract::declare::{flag, integer, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream};
use crate::object::end::End;
use crate::object::options::StoreParameters;
use crate::object::paths::{Flow, Paths};
use crate::object::place::Place;
use crate::parameters;
use crate::timing::clock::now_ns;

/// The kernel `object_listing`.
pub struct ObjectListing;

parameters! {
    /// What `object_listing` takes.
    pub struct Parameters {
        pages: u64 = integer("pages of 1,000 keys that are read at most", "", (1, 10_000), 1),
        route: bool = flag("list nothing, and tell what is known of the way to the store", false),
        store: StoreParameters = Group,
    }
}

impl Kernel for ObjectListing {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        grows: true,
        ..Declaration::new("object_listing", "listing the objects below a prefix of a bucket", "page")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let store = &parameters.store;
        // A null server lives as long as its end.
        let end = End::of(store, None)?;
        if parameters.route {
            let mut reading = Reading { streams: vec![Stream::new("list", 0)], ..Reading::default() };
            let place = Place::at(&end, store);
            place.describe_path(&mut reading.details);
            let (mut line, mut paths) = (place.line(0), Paths::new(1));
            if line.connect(stop).is_ok() {
                line.look(&mut paths);
            }
            paths.describe(Flow::Both, &mut reading);
            return Ok(reading);
        }
        let mut control = end.control().until(stop);
        let (mut pages, mut objects, mut token) = (0, 0, String::new());
        let mut endings: BTreeMap<String, u64> = BTreeMap::new();
        let mut first = None;
        let began = now_ns();
        while pages < parameters.pages && !stop.is_set() {
            let page = control.list(&store.prefix, "", &token)?;
            pages += 1;
            objects += page.keys.len() as u64;
            for key in &page.keys {
                let name = key.rsplit('/').next().unwrap_or_default();
                let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
                *endings.entry(ending.into()).or_default() += 1;
            }
            first = first.or_else(|| page.keys.into_iter().next());
            match page.next {
                Some(next) => token = next,
                None => break,
            }
        }
        let elapsed_s = (now_ns() - began) as f64 / 1e9;
        let streams = vec![Stream::new("list", pages)];
        let mut reading = Reading { elapsed_s, streams, interrupted: stop.is_set(), ..Reading::default() };
        reading.detail("objects", objects);
        reading.detail("endings", json!(endings));
        reading.detail("first_key", first);
        control.note_repeated(&mut reading);
        Ok(reading)
    }
}

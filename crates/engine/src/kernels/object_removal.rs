//! Removes all objects of a run; only a prefix with that run's mark is touched.

use crate::contract::declare::Group;
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream};
use crate::object::end::End;
use crate::object::layout;
use crate::object::marks;
use crate::object::options::StoreParameters;
use crate::object::stored::Stored;
use crate::parameters;
use crate::timing::clock::now_ns;

/// The kernel `object_removal`.
pub struct ObjectRemoval;

parameters! {
    /// What `object_removal` takes.
    pub struct Parameters {
        store: StoreParameters = Group,
    }
}

impl Kernel for ObjectRemoval {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        grows: true,
        ..Declaration::new("object_removal", "removing the objects of a run", "object")
    };

    /// It goes on after the first signal, because it is what a run does at its end.
    fn run(&self, parameters: &Parameters, _stop: &Stop) -> Result<Reading, Error> {
        let store = &parameters.store;
        let end = End::of(store, None)?;
        let mut control = end.control();
        if end.is_null() {
            // So that there is something to remove.
            marks::make(&mut control, &store.prefix)?;
        }
        let stored = Stored::listed(&store.prefix, &[]);
        let load = layout::for_removal(&end.bucket, &end.credentials, &stored, store.reach.timeout);
        let began = now_ns();
        let removed = layout::remove(&mut control, &load, &store.prefix, &Stop::new())?;
        let elapsed_s = (now_ns() - began) as f64 / 1e9;
        let mut reading = Reading { elapsed_s, streams: vec![Stream::new("delete", removed)], ..Reading::default() };
        control.note_repeated(&mut reading);
        Ok(reading)
    }
}

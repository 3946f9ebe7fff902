//! Makes the objects that requests read: below a prefix that is marked as this run's, after killed runs' are removed.

use crate::contract::declare::{flag, integer, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::Reading;
use crate::object::client::Load;
use crate::object::end::End;
use crate::object::layout;
use crate::object::marks;
use crate::object::options::{LoadParameters, Operation, StoreParameters};
use crate::object::stored::Stored;
use crate::object::tally::make_reading;
use crate::parameters;

/// The kernel `object_layout`.
pub struct ObjectLayout;

parameters! {
    /// What `object_layout` takes.
    pub struct Parameters {
        concurrency: usize = integer("requests in flight", "", (1, 4096), 16).role(Role::Concurrency),
        create_bucket: bool = flag("make the bucket where there is none", false),
        marked: bool = flag("the prefix is marked as this run's already", false),
        load: LoadParameters = Group,
        store: StoreParameters = Group,
    }
}

impl Kernel for ObjectLayout {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        grows: true,
        ..Declaration::new("object_layout", "writing the objects that later requests read", "object")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { ref load, ref store, .. } = *parameters;
        let end = End::of(store, None)?;
        let mut control = end.control().until(stop);
        let made_bucket = parameters.create_bucket && control.make_bucket()?;
        let stored = Stored::numbered(&store.keys_of(Operation::Get, load.object_size))?;
        let work = layout::each_once(Operation::Put, load.objects, load.object_size, store.seed);
        let load = Load {
            bucket: &end.bucket,
            credentials: &end.credentials,
            stored: &stored,
            written: &stored,
            work,
            checksum: load.checksum,
            concurrency: parameters.concurrency,
            threads: load.client_threads,
            timeout_s: store.reach.timeout,
            keep_alive: true,
            interval_s: 1.0,
        };
        let mut left = layout::Left::default();
        if parameters.marked {
            marks::check(&mut control, &store.prefix)?;
        } else {
            left = layout::claim(&mut control, &load, &store.prefix, stop)?;
        }
        let tally = layout::make(&load, stop)?;
        let mut reading = make_reading(&tally, &work, parameters.concurrency);
        reading.detail("made_bucket", made_bucket);
        left.describe(&mut reading);
        control.note_repeated(&mut reading);
        Ok(reading)
    }
}

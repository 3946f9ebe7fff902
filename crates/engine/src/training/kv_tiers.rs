//! Where each entry of a KV cache is: a memory tier above a storage tier, least recently used first to go.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of an entry in memory.
pub type Data = Arc<Vec<u8>>;

/// The tier that an entry was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Memory.
    Memory,
    /// Storage.
    Storage,
    /// Neither: all that is there is in use.
    None,
}

/// What is to be done to make room for an entry, outside of the lock.
#[derive(Debug)]
pub struct Admission {
    /// Where it goes.
    pub tier: Tier,
    /// Entries that leave memory: each is to be written, then [`Tiers::demoted`] or [`Tiers::forget`].
    pub demote: Vec<(u64, Data)>,
    /// Entries that leave the cache: their files are to be removed.
    pub delete: Vec<u64>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Entries that left memory for storage.
    pub demoted: u64,
    /// Entries that left the cache.
    pub deleted: u64,
    /// The most that lay on storage at once, B.
    pub max_on_storage: u64,
    /// The most that lay in memory at once, B.
    pub max_in_memory: u64,
}

struct Entry {
    bytes: u64,
    /// Its content while it is in memory (and while it is written to storage).
    data: Option<Data>,
    on_storage: bool,
    used: u64,
    /// Users that read or write it now; such an entry stays.
    pins: u32,
}

#[derive(Default)]
struct State {
    entries: HashMap<u64, Entry>,
    /// Entries by the time of their last use.
    in_memory: BTreeMap<u64, u64>,
    on_storage: BTreeMap<u64, u64>,
    memory_bytes: u64,
    storage_bytes: u64,
    now: u64,
    counts: Counts,
}

/// Shared by all users.
pub struct Tiers {
    memory_limit: u64,
    storage_limit: u64,
    state: Mutex<State>,
}

impl State {
    fn order(&mut self, on_storage: bool) -> &mut BTreeMap<u64, u64> {
        if on_storage {
            &mut self.on_storage
        } else {
            &mut self.in_memory
        }
    }

    fn touch(&mut self, id: u64) {
        self.now += 1;
        let now = self.now;
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let (before, on_storage) = (std::mem::replace(&mut entry.used, now), entry.on_storage);
        let order = self.order(on_storage);
        order.remove(&before);
        order.insert(now, id);
    }

    fn insert(&mut self, id: u64, bytes: u64, on_storage: bool) {
        self.now += 1;
        let used = self.now;
        self.entries.insert(id, Entry { bytes, data: None, on_storage, used, pins: 1 });
        self.order(on_storage).insert(used, id);
        self.add(on_storage, bytes);
    }

    fn add(&mut self, on_storage: bool, bytes: u64) {
        if on_storage {
            self.storage_bytes += bytes;
            self.counts.max_on_storage = self.counts.max_on_storage.max(self.storage_bytes);
        } else {
            self.memory_bytes += bytes;
            self.counts.max_in_memory = self.counts.max_in_memory.max(self.memory_bytes);
        }
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.order(entry.on_storage).remove(&entry.used);
        if entry.on_storage {
            self.storage_bytes -= entry.bytes;
        } else {
            self.memory_bytes -= entry.bytes;
        }
        Some(entry)
    }

    /// The oldest entries of a tier that no one uses and that together free `bytes`; none if they cannot.
    fn oldest(&self, on_storage: bool, bytes: u64) -> Option<Vec<u64>> {
        let order = if on_storage { &self.on_storage } else { &self.in_memory };
        let (mut freed, mut chosen) = (0, Vec::new());
        for id in order.values() {
            if freed >= bytes {
                break;
            }
            if let Some(entry) = self.entries.get(id).filter(|entry| entry.pins == 0) {
                freed += entry.bytes;
                chosen.push(*id);
            }
        }
        (freed >= bytes).then_some(chosen)
    }

    /// Makes room for `bytes` on storage: the entries that go; none if all are in use.
    fn clear_storage(&mut self, bytes: u64, limit: u64) -> Option<Vec<u64>> {
        if bytes > limit {
            return None;
        }
        let gone = self.oldest(true, (self.storage_bytes + bytes).saturating_sub(limit))?;
        for id in &gone {
            self.remove(*id);
            self.counts.deleted += 1;
        }
        Some(gone)
    }
}

impl Tiers {
    /// Tiers with room for this many bytes in memory and on storage.
    #[must_use]
    pub fn new(memory_limit: u64, storage_limit: u64) -> Self {
        Self { memory_limit, storage_limit, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds an entry and holds it: its length, and its content if that is in memory.
    pub fn hold(&self, id: u64) -> Option<(u64, Option<Data>)> {
        let mut state = self.lock();
        state.touch(id);
        let entry = state.entries.get_mut(&id)?;
        entry.pins += 1;
        Some((entry.bytes, entry.data.clone()))
    }

    /// Ends a [`Tiers::hold`] or an [`Tiers::admit`].
    pub fn release(&self, id: u64) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// Admits a new entry, pinned, and lists what has to leave for it.
    pub fn admit(&self, id: u64, bytes: u64) -> Admission {
        let mut state = self.lock();
        let none = Admission { tier: Tier::None, demote: Vec::new(), delete: Vec::new() };
        if bytes <= self.memory_limit {
            let over = (state.memory_bytes + bytes).saturating_sub(self.memory_limit);
            if let Some(leaving) = state.oldest(false, over) {
                let needed = leaving.iter().filter_map(|id| state.entries.get(id)).map(|entry| entry.bytes).sum();
                if let Some(delete) = state.clear_storage(needed, self.storage_limit) {
                    let mut demote = Vec::with_capacity(leaving.len());
                    for id in leaving {
                        let Some(mut entry) = state.remove(id) else { continue };
                        // pinned until it is written; its content can be read from memory meanwhile
                        entry.pins += 1;
                        entry.on_storage = true;
                        if let Some(data) = &entry.data {
                            demote.push((id, data.clone()));
                        }
                        state.on_storage.insert(entry.used, id);
                        state.add(true, entry.bytes);
                        state.entries.insert(id, entry);
                    }
                    state.insert(id, bytes, false);
                    return Admission { tier: Tier::Memory, demote, delete };
                }
            }
        }
        match state.clear_storage(bytes, self.storage_limit) {
            Some(delete) => {
                state.insert(id, bytes, true);
                Admission { tier: Tier::Storage, delete, ..none }
            }
            None => none,
        }
    }

    /// Gives an entry of the memory tier its content.
    pub fn fill(&self, id: u64, data: Vec<u8>) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.data = Some(Arc::new(data));
        }
    }

    /// An entry that left memory is on storage now.
    pub fn demoted(&self, id: u64) {
        let mut state = self.lock();
        state.counts.demoted += 1;
        if let Some(entry) = state.entries.get_mut(&id) {
            entry.data = None;
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// An entry is lost: it could not be written, or not be read.
    pub fn forget(&self, id: u64) {
        self.lock().remove(id);
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tiers: &Tiers, id: u64, bytes: u64) -> Admission {
        let admission = tiers.admit(id, bytes);
        if admission.tier == Tier::Memory {
            tiers.fill(id, vec![id as u8; bytes as usize]);
        }
        tiers.release(id);
        admission
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let tiers = Tiers::new(0, 100);
        for id in 0..4 {
            assert_eq!(put(&tiers, id, 25).tier, Tier::Storage);
        }
        assert!(tiers.hold(0).is_some());
        tiers.release(0);
        assert_eq!(put(&tiers, 4, 30).delete, [1, 2]);
        assert!(tiers.hold(1).is_none());
        assert_eq!(tiers.counts().deleted, 2);
        assert_eq!(tiers.counts().max_on_storage, 100);
    }

    #[test]
    fn memory_overflows_into_storage_and_storage_out() {
        let tiers = Tiers::new(50, 60);
        for id in 0..2 {
            assert_eq!(put(&tiers, id, 25).tier, Tier::Memory);
        }
        let third = put(&tiers, 2, 25);
        assert_eq!((third.tier, third.demote.len()), (Tier::Memory, 1));
        // while it is written its content comes from memory, and it cannot go
        let (_, data) = tiers.hold(0).unwrap();
        assert_eq!(data.unwrap().len(), 25);
        tiers.release(0);
        tiers.demoted(0);
        assert!(tiers.hold(0).unwrap().1.is_none());
        tiers.release(0);
        let fourth = put(&tiers, 3, 25);
        assert_eq!(fourth.demote.iter().map(|one| one.0).collect::<Vec<_>>(), [1]);
        tiers.demoted(1);
        let fifth = put(&tiers, 4, 25);
        // the first one was read since, so that the second one goes
        assert_eq!((fifth.delete, fifth.demote[0].0), (vec![1], 2));
    }

    #[test]
    fn what_is_in_use_stays_and_what_is_too_large_is_turned_away() {
        let tiers = Tiers::new(0, 50);
        assert_eq!(tiers.admit(0, 50).tier, Tier::Storage); // pinned
        assert_eq!(tiers.admit(1, 10).tier, Tier::None);
        tiers.release(0);
        assert_eq!(tiers.admit(1, 10).delete, [0]);
        assert_eq!(tiers.admit(2, 51).tier, Tier::None);
        tiers.forget(1);
        assert!(tiers.hold(1).is_none());
    }
}

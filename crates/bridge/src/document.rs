//! JSON as Python's values, checked as it is read.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::IntoPyObjectExt;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// Whole numbers from here on may be longer than what was read of them.
const LONG: f64 = 9_223_372_036_854_775_808.0;

/// A value at some depth.
#[derive(Clone, Copy)]
struct Seed<'a, 'py> {
    py: Python<'py>,
    /// Levels that may follow, this one included.
    levels: u32,
    /// Values that may follow in the whole document.
    left: &'a Cell<u32>,
}

impl<'py> Seed<'_, 'py> {
    fn inner<E: Error>(self) -> Result<Self, E> {
        match self.levels {
            0 | 1 => Err(E::custom("nested too deep")),
            levels => Ok(Self { levels: levels - 1, ..self }),
        }
    }

    fn python<E: Error>(self, value: impl IntoPyObject<'py>) -> Result<Bound<'py, PyAny>, E> {
        value.into_bound_py_any(self.py).map_err(E::custom)
    }
}

impl<'de, 'py> DeserializeSeed<'de> for Seed<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.left.set(self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("too many values"))?);
        deserializer.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for Seed<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        self.python(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.python(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.python(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        // "-0" is a whole number to Python, and one of twenty digits is read exactly.
        if value.abs() >= LONG || (value == 0.0 && value.is_sign_negative()) {
            return Err(E::custom("a number that needs a look"));
        }
        self.python(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        self.python(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let (found, seed) = (PyList::empty(self.py), self.inner()?);
        while let Some(value) = items.next_element_seed(seed)? {
            found.append(value).map_err(A::Error::custom)?;
        }
        Ok(found.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let (found, seed) = (PyDict::new(self.py), self.inner()?);
        while let Some(key) = items.next_key::<std::borrow::Cow<'de, str>>()? {
            found.set_item(key.as_ref(), items.next_value_seed(seed)?).map_err(A::Error::custom)?;
        }
        Ok(found.into_any())
    }
}

/// The document in `text` as Python's `json` reads it. None where it is none, has more than this many levels or values, or a
/// number that is not within 2^63: that is for another to read.
#[pyfunction]
pub fn document<'py>(py: Python<'py>, text: &[u8], levels: u32, values: u32) -> Option<Bound<'py, PyAny>> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let found = Seed { py, levels, left: &Cell::new(values) }.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(found)
}

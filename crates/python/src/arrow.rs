// SPDX-License-Identifier: GPL-2.0-only
//! Tables, given away by Arrow's C stream interface: whoever takes one reads the memory in which it lies here, and
//! nothing is copied. The structures are those of <https://arrow.apache.org/docs/format/CDataInterface.html> and
//! `CStreamInterface.html`, which are to be repeated by whoever wants no library for them: Arrow's are under a license
//! that GPL-2.0-only does not allow.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Columns of the same length.
#[derive(Debug)]
pub struct Table {
    pub rows: usize,
    pub columns: Vec<Column>,
}

/// What stands below one name.
#[derive(Debug)]
pub struct Column {
    pub name: String,
    /// A bit per row, set where there is a value.
    valid: Vec<u8>,
    absent: usize,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Numbers(Vec<u64>),
    Figures(Vec<f64>),
    /// Each text ends, in bytes, where the next begins; the first begins at 0.
    Texts {
        ends: Vec<i64>,
        bytes: Vec<u8>,
    },
    /// A bit per row.
    Flags(Vec<u8>),
}

impl Column {
    pub fn numbers(name: &str, values: impl IntoIterator<Item = Option<u64>>) -> Column {
        let values: Vec<_> = values.into_iter().collect();
        let numbers = values.iter().map(|value| value.unwrap_or_default()).collect();
        Column::new(name, &values, Values::Numbers(numbers))
    }

    pub fn figures(name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Column {
        let values: Vec<_> = values.into_iter().collect();
        let figures = values.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
        Column::new(name, &values, Values::Figures(figures))
    }

    pub fn flags(name: &str, values: impl IntoIterator<Item = Option<bool>>) -> Column {
        let values: Vec<_> = values.into_iter().collect();
        let set = bits(values.iter().map(|value| value.unwrap_or_default()));
        Column::new(name, &values, Values::Flags(set))
    }

    pub fn texts<T: AsRef<str>>(name: &str, values: impl IntoIterator<Item = Option<T>>) -> Column {
        let values: Vec<_> = values.into_iter().collect();
        let (mut ends, mut bytes) = (vec![0], vec![]);
        for value in &values {
            bytes.extend(value.as_ref().map_or("", AsRef::as_ref).as_bytes());
            ends.push(bytes.len() as i64);
        }
        Column::new(name, &values, Values::Texts { ends, bytes })
    }

    fn new<T>(name: &str, values: &[Option<T>], own: Values) -> Column {
        let valid = bits(values.iter().map(Option::is_some));
        let absent = values.iter().filter(|value| value.is_none()).count();
        Column { name: name.to_owned(), valid, absent, values: own }
    }

    /// The name that the interface has for its type.
    fn format(&self) -> &'static CStr {
        match self.values {
            Values::Numbers(_) => c"L",
            Values::Figures(_) => c"g",
            Values::Texts { .. } => c"U",
            Values::Flags(_) => c"b",
        }
    }

    fn buffers(&self) -> Vec<*const c_void> {
        let valid = if self.absent == 0 { null() } else { self.valid.as_ptr().cast() };
        match &self.values {
            Values::Numbers(values) => vec![valid, values.as_ptr().cast()],
            Values::Figures(values) => vec![valid, values.as_ptr().cast()],
            Values::Texts { ends, bytes } => {
                vec![valid, ends.as_ptr().cast(), bytes.as_ptr().cast()]
            }
            Values::Flags(set) => vec![valid, set.as_ptr().cast()],
        }
    }
}

/// A bit for each, the first being the least of the first byte.
fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = vec![];
    for (index, value) in values.enumerate() {
        if index % 8 == 0 {
            bytes.push(0);
        }
        if let Some(byte) = bytes.last_mut() {
            *byte |= u8::from(value) << (index % 8);
        }
    }
    bytes
}

/// `struct ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    child_count: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    buffer_count: i64,
    child_count: i64,
    buffers: *const *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

// SAFETY: what `private` points to is `Streamed`, which is `Send`, and owned by the stream alone.
unsafe impl Send for Stream {}

/// A column may be absent in a row (`ARROW_FLAG_NULLABLE`).
const NULLABLE: i64 = 2;

struct Streamed {
    table: Arc<Table>,
    /// There is one batch.
    given: bool,
}

impl Stream {
    pub fn of(table: Arc<Table>) -> Stream {
        Stream {
            get_schema: Some(stream_schema),
            get_next: Some(stream_next),
            get_last_error: Some(stream_error),
            release: Some(stream_release),
            private: Box::into_raw(Box::new(Streamed { table, given: false })).cast(),
        }
    }
}

/// Who takes a stream leaves no `release` behind.
impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it was not released yet.
            unsafe { release(self) }
        }
    }
}

unsafe extern "C" fn stream_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the stream was made by `Stream::of` and is not released; `out` can be written.
    unsafe {
        let streamed = &*(*stream).private.cast::<Streamed>();
        let children = streamed.table.columns.iter();
        let children =
            children.map(|column| Schema::new(column.format(), &column.name, NULLABLE, vec![]));
        out.write(Schema::new(c"+s", "", 0, children.collect()));
    }
    0
}

unsafe extern "C" fn stream_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as in `stream_schema`; nobody else has the stream.
    unsafe {
        let streamed = &mut *(*stream).private.cast::<Streamed>();
        out.write(match std::mem::replace(&mut streamed.given, true) {
            true => Array::END,
            false => Array::of_table(&streamed.table),
        });
    }
    0
}

/// There are no errors.
unsafe extern "C" fn stream_error(_stream: *mut Stream) -> *const c_char {
    null()
}

unsafe extern "C" fn stream_release(stream: *mut Stream) {
    // SAFETY: as in `stream_next`, and it is released once.
    unsafe {
        drop(Box::from_raw((*stream).private.cast::<Streamed>()));
        (*stream).release = None;
    }
}

/// What a schema points to.
struct SchemaOwned {
    _name: CString,
    children: Vec<*mut Schema>,
}

impl Schema {
    fn new(format: &'static CStr, name: &str, flags: i64, children: Vec<Schema>) -> Schema {
        // Names of columns have no NUL but by somebody's malice.
        let name = CString::new(name.replace('\0', "")).unwrap_or_default();
        let children: Vec<_> =
            children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let name_pointer = name.as_ptr();
        let mut owned = Box::new(SchemaOwned { _name: name, children });
        Schema {
            format: format.as_ptr(),
            name: name_pointer,
            metadata: null(),
            flags,
            child_count: owned.children.len() as i64,
            children: owned.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(schema_release),
            private: Box::into_raw(owned).cast(),
        }
    }
}

unsafe extern "C" fn schema_release(schema: *mut Schema) {
    // SAFETY: it was made by `Schema::new`, and is released once; children that others took have no `release`.
    unsafe {
        let owned = Box::from_raw((*schema).private.cast::<SchemaOwned>());
        for &child in &owned.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

/// What an array points to.
struct ArrayOwned {
    /// Keeps what the buffers point to.
    _table: Arc<Table>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

impl Array {
    /// No array any more.
    const END: Array = Array {
        length: 0,
        null_count: 0,
        offset: 0,
        buffer_count: 0,
        child_count: 0,
        buffers: null(),
        children: null_mut(),
        dictionary: null_mut(),
        release: None,
        private: null_mut(),
    };

    fn of_table(table: &Arc<Table>) -> Array {
        let columns = table.columns.iter();
        let children = columns.map(|column| {
            let array = Array::new(table, column.absent, column.buffers(), vec![]);
            Box::into_raw(Box::new(array))
        });
        Array::new(table, 0, vec![null()], children.collect())
    }

    fn new(
        table: &Arc<Table>,
        absent: usize,
        buffers: Vec<*const c_void>,
        children: Vec<*mut Array>,
    ) -> Array {
        let mut owned = Box::new(ArrayOwned { _table: table.clone(), buffers, children });
        Array {
            length: table.rows as i64,
            null_count: absent as i64,
            buffer_count: owned.buffers.len() as i64,
            child_count: owned.children.len() as i64,
            buffers: owned.buffers.as_ptr(),
            children: owned.children.as_mut_ptr(),
            release: Some(array_release),
            private: Box::into_raw(owned).cast(),
            ..Array::END
        }
    }
}

unsafe extern "C" fn array_release(array: *mut Array) {
    // SAFETY: as in `schema_release`, of `Array::new`.
    unsafe {
        let owned = Box::from_raw((*array).private.cast::<ArrayOwned>());
        for &child in &owned.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}

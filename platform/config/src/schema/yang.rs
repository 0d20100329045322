//! Knowledge of libyang hidden by its binding: marks of nodes, ranges, words of enumerations, defaults of leaf-lists,
//! dependencies of constraints, and the check of a value.
#![allow(unsafe_code)]

use super::addresses;
use crate::tree::Form;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};
use thiserror::Error;
use yang5::context::Context;
use yang5::data::DataNodeRef;
use yang5::ffi;
use yang5::schema::{DataValueType, SchemaLeafType, SchemaNode, SchemaNodeKind};

/// The elements of a sized array of libyang's.
///
/// # Safety
/// `array` is null or a sized array of libyang's, whose length stands before its first element (`LY_ARRAY_COUNT`), and
/// lives as long as the caller uses the result.
unsafe fn elements<'a, T>(array: *mut T) -> &'a [T] {
    if array.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees that this is a sized array.
    unsafe { std::slice::from_raw_parts(array, *array.cast::<u64>().sub(1) as usize) }
}

/// # Safety
/// `text` is null or ends in an octet 0.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees that it ends.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The marks of a node, names and arguments, that `sluice-extensions` defines.
pub(crate) fn marks(node: &SchemaNode<'_>) -> Vec<(String, String)> {
    // SAFETY: the node lives as long as its context, which it borrows; so do its extensions and their definitions.
    unsafe {
        let all = elements((*node.as_raw()).exts);
        all.iter()
            .filter(|mark| !mark.def.is_null() && !(*mark.def).module.is_null())
            .filter(|mark| text((*(*mark.def).module).name) == "sluice-extensions")
            .map(|mark| (text((*mark.def).name), text(mark.argument)))
            .collect()
    }
}

/// A type's range or length as (smallest, largest), in the type's order.
pub(crate) fn range(kind: &SchemaLeafType<'_>) -> Vec<(i128, i128)> {
    let is_signed = matches!(
        kind.base_type(),
        DataValueType::Int8
            | DataValueType::Int16
            | DataValueType::Int32
            | DataValueType::Int64
            | DataValueType::Dec64
    );
    let raw = kind.as_raw();
    // SAFETY: the type lives as long as its context; its base type determines the structure.
    unsafe {
        let range = match kind.base_type() {
            DataValueType::String => (*raw.cast::<ffi::lysc_type_str>()).length,
            DataValueType::Binary => (*raw.cast::<ffi::lysc_type_bin>()).length,
            DataValueType::Dec64 => (*raw.cast::<ffi::lysc_type_dec>()).range,
            _ if is_signed || is_unsigned(kind.base_type()) => (*raw.cast::<ffi::lysc_type_num>()).range,
            _ => return Vec::new(),
        };
        if range.is_null() {
            return Vec::new();
        }
        elements((*range).parts)
            .iter()
            .map(|part| match is_signed {
                true => (part.__bindgen_anon_1.min_64.into(), part.__bindgen_anon_2.max_64.into()),
                false => (part.__bindgen_anon_1.min_u64.into(), part.__bindgen_anon_2.max_u64.into()),
            })
            .collect()
    }
}

fn is_unsigned(base: DataValueType) -> bool {
    use DataValueType::{Uint8, Uint16, Uint32, Uint64};
    matches!(base, Uint8 | Uint16 | Uint32 | Uint64)
}

/// The digits after the point of a decimal number.
pub(crate) fn fraction_digits(kind: &SchemaLeafType<'_>) -> u32 {
    match kind.base_type() {
        // SAFETY: the type lives as long as its context, and its base type determines the structure.
        DataValueType::Dec64 => unsafe {
            (*kind.as_raw().cast::<ffi::lysc_type_dec>()).fraction_digits.into()
        },
        _ => 0,
    }
}

/// The words of an enumeration or of bits, with their meaning.
pub(crate) fn words(kind: &SchemaLeafType<'_>) -> Vec<(String, String)> {
    // SAFETY: the type lives as long as its context, and its base type determines the structure.
    unsafe {
        let items = match kind.base_type() {
            DataValueType::Enum => (*kind.as_raw().cast::<ffi::lysc_type_enum>()).enums,
            DataValueType::Bits => (*kind.as_raw().cast::<ffi::lysc_type_bits>()).bits,
            _ => return Vec::new(),
        };
        elements(items).iter().map(|item| (text(item.name), text(item.dsc))).collect()
    }
}

/// The members of a union.
pub(crate) fn members<'a>(context: &'a Context, kind: &SchemaLeafType<'a>) -> Vec<SchemaLeafType<'a>> {
    use yang5::utils::Binding;
    if kind.base_type() != DataValueType::Union {
        return Vec::new();
    }
    // SAFETY: the type lives as long as its context, and its base type determines the structure.
    unsafe {
        let types = elements((*kind.as_raw().cast::<ffi::lysc_type_union>()).types);
        types.iter().map(|raw| SchemaLeafType::from_raw(context, *raw)).collect()
    }
}

/// The default values of a leaf-list.
pub(crate) fn default_values(node: &SchemaNode<'_>) -> Vec<String> {
    if node.kind() != SchemaNodeKind::LeafList {
        return Vec::new();
    }
    // SAFETY: the node lives as long as its context, and its kind determines the structure.
    unsafe {
        elements((*node.as_raw().cast::<ffi::lysc_node_leaflist>()).dflts)
            .iter()
            .map(|d| text(d.str_))
            .collect()
    }
}

/// A node of a context, valid as long as the [`Yang`] with both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle(*const ffi::lysc_node);

impl Handle {
    pub fn new(node: &SchemaNode<'_>) -> Self {
        Handle(node.as_raw())
    }

    /// A number for each node, to find it by.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// A context closed to further modules, and its nodes with values.
pub(crate) struct Yang {
    context: Context,
    handles: Vec<Handle>,
}

// SAFETY: the pointers lead into `context` and nowhere else, and go with it. libyang binds a context to no thread; one thread at
// a time uses this one, because nothing here is `Sync`.
unsafe impl Send for Yang {}

/// The reason why a value is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum ValueError {
    /// The node is a block.
    #[error("it takes no value")]
    NoValue,
    /// The value is longer than libyang takes.
    #[error("it is too long")]
    Long,
    /// The value has an octet 0.
    #[error("it holds an octet 0")]
    Octet,
    /// The value is not of the type: libyang's message.
    #[error("{0}")]
    Refused(String),
    /// The value is an address that no machine can have.
    #[error("expected {0}")]
    Address(&'static str),
}

impl Yang {
    /// Keeps a context, and the handles made by `walk` of nodes of the context only.
    pub fn new<T>(context: Context, walk: impl FnOnce(&Context, &mut Vec<Handle>) -> T) -> (Self, T) {
        let mut handles = Vec::new();
        let walked = walk(&context, &mut handles);
        (Yang { context, handles }, walked)
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the canonical form of a value of the leaf or leaf-list `handle`, or the reason of a refusal. Faults
    /// visible only in the whole tree are accepted.
    pub fn canonical(&self, handle: usize, value: &str) -> Result<(Box<str>, Form), ValueError> {
        let Some(Handle(node)) = self.handles.get(handle).copied() else {
            return Err(ValueError::NoValue);
        };
        let Ok(length) = u32::try_from(value.len()) else { return Err(ValueError::Long) };
        let owned = CString::new(value).map_err(|_| ValueError::Octet)?;
        let (mut kind, mut canonical) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the node belongs to our context, and its walk made handles of leaves and leaf-lists only; the value ends in an
        // octet 0; what is written to `kind` lives as long as the context, what is written to `canonical` until it is given back.
        unsafe {
            if !matches!(u32::from((*node).nodetype), ffi::LYS_LEAF | ffi::LYS_LEAFLIST) {
                return Err(ValueError::NoValue);
            }
            let context = (*(*node).module).ctx;
            let result = ffi::lyd_value_validate(
                node,
                owned.as_ptr(),
                length,
                std::ptr::null(),
                &mut kind,
                &mut canonical,
            );
            if result != ffi::LY_ERR::LY_SUCCESS && result != ffi::LY_ERR::LY_EINCOMPLETE {
                let error = ffi::ly_err_last(context);
                let reason = if error.is_null() { String::new() } else { text((*error).msg) };
                ffi::ly_err_clean(context, std::ptr::null_mut());
                return Err(ValueError::Refused(reason.trim_end_matches('.').to_owned()));
            }
            let form = if kind.is_null() { Form::Text } else { form((*kind).basetype) };
            let found: Box<str> = if canonical.is_null() {
                value.into()
            } else {
                CStr::from_ptr(canonical).to_string_lossy().into()
            };
            if !canonical.is_null() {
                ffi::lydict_remove(context, canonical);
            }
            let type_name = typedef_name(node);
            if let Some(expected) = type_name.and_then(|name| addresses::fault(&name, &found)) {
                return Err(ValueError::Address(expected));
            }
            Ok((found, form))
        }
    }
}

/// Returns the name of the typedef of a leaf or a leaf-list; `None` for types without a name.
///
/// # Safety
/// The node is a leaf or a leaf-list of a living context.
unsafe fn typedef_name<'a>(node: *const ffi::lysc_node) -> Option<Cow<'a, str>> {
    // SAFETY: the caller guarantees that it lives, and its kind determines the structure.
    unsafe {
        let kind = match u32::from((*node).nodetype) {
            ffi::LYS_LEAF => (*node.cast::<ffi::lysc_node_leaf>()).type_,
            _ => (*node.cast::<ffi::lysc_node_leaflist>()).type_,
        };
        let name = (*kind).name;
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy())
    }
}

fn form(base: ffi::LY_DATA_TYPE::Type) -> Form {
    use ffi::LY_DATA_TYPE as t;
    match base {
        t::LY_TYPE_UINT8
        | t::LY_TYPE_UINT16
        | t::LY_TYPE_UINT32
        | t::LY_TYPE_INT8
        | t::LY_TYPE_INT16
        | t::LY_TYPE_INT32 => Form::Number,
        t::LY_TYPE_BOOL => Form::Boolean,
        t::LY_TYPE_EMPTY => Form::Empty,
        _ => Form::Text,
    }
}

/// Returns the nodes on which the constraints of a node depend beyond the node's own value; `None` if libyang cannot
/// determine the nodes.
pub(crate) fn dependencies(node: &SchemaNode<'_>) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    let raw = node.as_raw().cast_const();
    // SAFETY: the node lives as long as its context, and its kind determines the structure.
    unsafe {
        let module = (*raw).module.cast_const();
        let (musts, whens): (&[ffi::lysc_must], &[*mut ffi::lysc_when]) = match node.kind() {
            SchemaNodeKind::Container => {
                let inner = &*raw.cast::<ffi::lysc_node_container>();
                (elements(inner.musts), elements(inner.when))
            }
            SchemaNodeKind::List => {
                let inner = &*raw.cast::<ffi::lysc_node_list>();
                for unique in elements(inner.uniques) {
                    found.extend(elements(*unique).iter().map(|leaf| *leaf as usize));
                }
                (elements(inner.musts), elements(inner.when))
            }
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => {
                // A leaf and a leaf-list begin alike, up to their type.
                let inner = &*raw.cast::<ffi::lysc_node_leaf>();
                if !leafrefs(raw, module, inner.type_, &mut found) {
                    return None;
                }
                // A reference is about the value of a leaf; a container on the way to the leaf has none.
                let container = ffi::LYS_CONTAINER as u16;
                found.retain(|node| (*(*node as *const ffi::lysc_node)).nodetype != container);
                (elements(inner.musts), elements(inner.when))
            }
            SchemaNodeKind::Choice => (&[], elements((*raw.cast::<ffi::lysc_node_choice>()).when)),
            SchemaNodeKind::Case => (&[], elements((*raw.cast::<ffi::lysc_node_case>()).when)),
            _ => (&[], &[]),
        };
        for must in musts {
            if !atoms(raw, module, must.cond, must.prefixes, &mut found) {
                return None;
            }
        }
        for when in whens {
            let when = &**when;
            if !atoms(when.context, module, when.cond, when.prefixes, &mut found) {
                return None;
            }
        }
        let is_bound = !musts.is_empty() || !whens.is_empty() || !found.is_empty();
        if is_bound {
            found.push(raw as usize);
        }
    }
    Some(found)
}

/// Returns true for a value that libyang has filled in, and false for a written value that equals the default.
pub(crate) fn is_filled_in(node: &DataNodeRef<'_>) -> bool {
    /// `LYD_DEFAULT` of libyang's `tree_data.h`, which the binding leaves out.
    const DEFAULT: u32 = 1;
    // SAFETY: the node lives as long as its tree, which it borrows.
    unsafe { (*node.as_raw()).flags & DEFAULT != 0 }
}

/// Returns true if a node's presence hangs on a condition.
pub(crate) fn is_conditional(node: &SchemaNode<'_>) -> bool {
    node.whens().next().is_some()
}

/// Adds the dependencies of the references of a type. Returns false if libyang cannot determine the dependencies.
///
/// # Safety
/// The pointers belong to a single living context.
unsafe fn leafrefs(
    node: *const ffi::lysc_node,
    module: *const ffi::lys_module,
    kind: *const ffi::lysc_type,
    found: &mut Vec<usize>,
) -> bool {
    use ffi::LY_DATA_TYPE as t;
    // SAFETY: the caller guarantees that they live; the base type determines the structure.
    unsafe {
        match (*kind).basetype {
            t::LY_TYPE_LEAFREF => {
                let reference = &*kind.cast::<ffi::lysc_type_leafref>();
                reference.require_instance == 0
                    || atoms(node, module, reference.path, reference.prefixes, found)
            }
            t::LY_TYPE_INST => false,
            t::LY_TYPE_UNION => {
                let members = elements((*kind.cast::<ffi::lysc_type_union>()).types);
                members.iter().all(|member| leafrefs(node, module, *member, found))
            }
            _ => true,
        }
    }
}

/// Adds the nodes read by an expression. Returns false if libyang cannot determine the nodes.
///
/// # Safety
/// The pointers belong to a single living context.
unsafe fn atoms(
    node: *const ffi::lysc_node,
    module: *const ffi::lys_module,
    expression: *const ffi::lyxp_expr,
    prefixes: *const ffi::lysc_prefix,
    found: &mut Vec<usize>,
) -> bool {
    let mut set: *mut ffi::ly_set = std::ptr::null_mut();
    // SAFETY: the caller guarantees that they live; the set is ours to free, its members are the context's.
    unsafe {
        let result = ffi::lys_find_expr_atoms(node, module, expression, prefixes, 0, &mut set);
        if result != ffi::LY_ERR::LY_SUCCESS || set.is_null() {
            return false;
        }
        let count = (*set).count as usize;
        if count > 0 {
            let nodes = std::slice::from_raw_parts((*set).__bindgen_anon_1.snodes, count);
            found.extend(nodes.iter().map(|n| *n as usize));
        }
        ffi::ly_set_free(set, None);
    }
    true
}

//! Texture and surface objects, and the making of a texture reference.

use super::call;
use crate::step::layout::opaque::{RESOURCE_DESC, RESOURCE_VIEW_DESC, TEXTURE_DESC};
use crate::step::{Output, StepKind, fixed, handle, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuTexObjectCreate",
        "Creates a texture of a resource, here all zero: of no array.",
        &[
            out("texture", Output::Handle("texture")),
            out("resource", Output::Struct(&RESOURCE_DESC)),
            out("sampling", Output::Struct(&TEXTURE_DESC)),
            fixed("view", 0),
        ],
    ),
    call("cuTexObjectDestroy", "Destroys a texture.", &[handle("texture", "texture")]),
    call(
        "cuTexObjectGetResourceDesc",
        "Reads what a texture is made of.",
        &[out("resource", Output::Struct(&RESOURCE_DESC)), handle("texture", "texture")],
    ),
    call(
        "cuTexObjectGetResourceViewDesc",
        "Reads how a texture sees its resource.",
        &[out("view", Output::Struct(&RESOURCE_VIEW_DESC)), handle("texture", "texture")],
    ),
    call(
        "cuTexObjectGetTextureDesc",
        "Reads how a texture is sampled.",
        &[out("sampling", Output::Struct(&TEXTURE_DESC)), handle("texture", "texture")],
    ),
    call(
        "cuSurfObjectCreate",
        "Creates a surface of a resource, here all zero: of no array.",
        &[out("surface", Output::Handle("surface")), out("resource", Output::Struct(&RESOURCE_DESC))],
    ),
    call("cuSurfObjectDestroy", "Destroys a surface.", &[handle("surface", "surface")]),
    call(
        "cuSurfObjectGetResourceDesc",
        "Reads what a surface is made of.",
        &[out("resource", Output::Struct(&RESOURCE_DESC)), handle("surface", "surface")],
    ),
    call(
        "cuTexRefCreate",
        "Creates a texture reference, the old kind of texture.",
        &[out("texture", Output::Handle("texture reference"))],
    ),
    call("cuTexRefDestroy", "Destroys a texture reference.", &[handle("texture", "texture reference")]),
];

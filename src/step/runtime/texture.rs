//! Texture and surface objects.

use super::call;
use crate::step::layout::opaque::{RESOURCE_DESC, RESOURCE_VIEW_DESC, TEXTURE_DESC};
use crate::step::{Output, StepKind, fixed, handle, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaCreateTextureObject",
        "Creates a texture of a resource, here all zero: of no array.",
        &[
            out("texture", Output::Handle("texture")),
            out("resource", Output::Struct(&RESOURCE_DESC)),
            out("sampling", Output::Struct(&TEXTURE_DESC)),
            fixed("view", 0),
        ],
    ),
    call(
        "cudaCreateTextureObject_v2",
        "Creates a texture of a resource, here all zero, by its exported name of 11.8.",
        &[
            out("texture", Output::Handle("texture")),
            out("resource", Output::Struct(&RESOURCE_DESC)),
            out("sampling", Output::Struct(&TEXTURE_DESC)),
            fixed("view", 0),
        ],
    ),
    call("cudaDestroyTextureObject", "Destroys a texture.", &[handle("texture", "texture")]),
    call(
        "cudaGetTextureObjectResourceDesc",
        "Reads what a texture is made of.",
        &[out("resource", Output::Struct(&RESOURCE_DESC)), handle("texture", "texture")],
    ),
    call(
        "cudaGetTextureObjectResourceViewDesc",
        "Reads how a texture sees its resource.",
        &[out("view", Output::Struct(&RESOURCE_VIEW_DESC)), handle("texture", "texture")],
    ),
    call(
        "cudaGetTextureObjectTextureDesc",
        "Reads how a texture is sampled.",
        &[out("sampling", Output::Struct(&TEXTURE_DESC)), handle("texture", "texture")],
    ),
    call(
        "cudaGetTextureObjectTextureDesc_v2",
        "Reads how a texture is sampled, by its exported name of 11.8.",
        &[out("sampling", Output::Struct(&TEXTURE_DESC)), handle("texture", "texture")],
    ),
    call(
        "cudaCreateSurfaceObject",
        "Creates a surface of a resource, here all zero: of no array.",
        &[out("surface", Output::Handle("surface")), out("resource", Output::Struct(&RESOURCE_DESC))],
    ),
    call("cudaDestroySurfaceObject", "Destroys a surface.", &[handle("surface", "surface")]),
    call(
        "cudaGetSurfaceObjectResourceDesc",
        "Reads what a surface is made of.",
        &[out("resource", Output::Struct(&RESOURCE_DESC)), handle("surface", "surface")],
    ),
];

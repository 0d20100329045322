//! Configuration: schema, text, validation.

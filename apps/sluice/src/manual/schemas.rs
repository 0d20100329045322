//! The JSON Schema (2020-12) of each command's output with `--json`: `docs/schemas/`, in the executable.

use crate::connection::connect::block_on;
use crate::connection::flags::Flags;
use crate::connection::session::Session;
use crate::output::Failure;
use crate::packages::commands::printed_schema;
use crate::schemas::{SCHEMAS, embedded, name};
use serde_json::Value;

/// The dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Prints a command's schema, or the names of every schema.
pub fn print(command: &[String]) -> Result<(), Failure> {
    if command.is_empty() {
        SCHEMAS.iter().for_each(|(name, _)| sluice_print::outln!("{name}"));
        return Ok(());
    }
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    // What the words mean, with abbreviations and other spellings; tools and `error` go by their own words.
    let grammar = crate::command_line::front::grammar();
    let id = grammar.read(command).map(|read| read.command.id.replace(' ', "-"));
    let found = embedded(&name(&words)).or_else(|| id.ok().and_then(|id| embedded(&id)));
    if let Some(text) = found {
        sluice_print::out!("{text}");
        return Ok(());
    }
    match block_on(of_package(command))?? {
        Some(schema) => {
            sluice_print::outln!("{schema:#}");
            Ok(())
        }
        None => {
            let words = words.join(" ");
            Err(Failure::usage(format!("there is no schema for `{words}`; `sluice schema` lists all")))
        }
    }
}

/// Returns the schema of a command in a package of the running router: made from the description of the called method.
async fn of_package(command: &[String]) -> Result<Option<Value>, Failure> {
    let session = Session::new(Flags::default());
    let packages = session.packages().await;
    let grammar = session.grammar().await;
    let Ok(read) = grammar.read(command) else { return Ok(None) };
    let Some(found) = packages.commands.iter().find(|c| c.command.id == read.command.id) else {
        return Ok(None);
    };
    let mut schema = printed_schema(&session, found).await?;
    schema["$schema"] = DIALECT.into();
    schema["title"] = format!("sluice {}", found.command.id).into();
    Ok(Some(schema))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use crate::packages::commands::of_reply;
    use clap::CommandFactory;
    use prost_reflect::DescriptorPool;
    use serde_json::json;
    use sluice_console::WIDE;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_has_a_schema() {
        for command in crate::command_line::front::grammar().commands.iter().filter(|c| !c.alias) {
            let name = command.id.replace(' ', "-");
            let text = embedded(&name).unwrap_or_else(|| panic!("docs/schemas/{name}.json is missing"));
            let value: serde_json::Value = serde_json::from_str(text).expect(&name);
            assert_eq!(value["$schema"], DIALECT, "{name}");
            assert!(jsonschema::validator_for(&value).is_ok(), "{name}");
        }
        for tool in ["error", "call-list"] {
            assert!(embedded(tool).is_some(), "docs/schemas/{tool}.json is missing");
        }
        let mut tools = Vec::new();
        with_json(&Cli::command(), &mut Vec::new(), &mut tools);
        assert!(tools.len() > 8, "{tools:?}");
        for tool in tools.iter().filter(|tool| !ONLY_ERRORS.contains(&tool.as_str())) {
            assert!(embedded(tool).is_some(), "docs/schemas/{tool}.json is missing");
        }
    }

    /// Tools with `--json` whose only JSON output is errors.
    const ONLY_ERRORS: [&str; 2] = ["start", "run"];

    /// Collects the schema names of the tools with `--json`, below a tool with the words `words`.
    fn with_json(tool: &clap::Command, words: &mut Vec<String>, found: &mut Vec<String>) {
        if tool.get_arguments().any(|arg| arg.get_long() == Some("json")) {
            found.push(words.join("-"));
        }
        for inner in tool.get_subcommands() {
            words.push(inner.get_name().to_owned());
            with_json(inner, words, found);
            words.pop();
        }
    }

    /// Returns the names of fields of 64 bits in the interfaces, without names used for 32 bits elsewhere.
    fn wide_fields() -> BTreeSet<String> {
        let interfaces = [
            include_str!("../../../../idl/common.proto"),
            include_str!("../../../../idl/fea.proto"),
            include_str!("../../../../idl/finder.proto"),
            include_str!("../../../../idl/manager.proto"),
            include_str!("../../../../idl/rib.proto"),
            include_str!("../../../../components/bgp/idl/bgp.proto"),
            include_str!("../../../../components/cluster/idl/cluster.proto"),
            include_str!("../../../../components/rpki/idl/rpki.proto"),
            include_str!("../../../../components/xip/idl/xip.proto"),
            include_str!("../../../../components/xip/idl/principal.proto"),
        ];
        let named = |kinds: &[&str]| -> BTreeSet<String> {
            let fields = interfaces.iter().flat_map(|text| text.lines());
            let words = fields.map(|line| line.split_whitespace().collect::<Vec<_>>());
            let of_kind = words.filter_map(|words| {
                let at = words.iter().position(|word| kinds.contains(word))?;
                (words.get(at + 2) == Some(&"=")).then(|| words[at + 1].to_owned())
            });
            of_kind.collect()
        };
        &named(&["uint64", "int64"]) - &named(&["uint32", "int32"])
    }

    /// Collects errors in the numbers of a schema: every integer must be declared with 32 bits or a sign, or be a string
    /// for 64 bits.
    fn check_numbers(schema: &Value, name: &str, wide: &BTreeSet<String>, wrong: &mut Vec<String>) {
        assert!(
            schema.get("$ref").is_none() && schema.get("oneOf").is_none(),
            "{name}: not known to `widen`"
        );
        let is_wide = schema["format"] == WIDE;
        let is_narrow = schema["format"] == "uint32" || schema["format"] == "int64";
        if schema["type"] == "integer" && (!is_narrow || wide.contains(name)) {
            wrong.push(format!("{name}: an integer that is of neither format uint32 nor int64"));
        }
        if is_wide && schema["type"] != "string" {
            wrong.push(format!("{name}: of format uint64, and no string"));
        }
        for (key, inner) in schema.as_object().into_iter().flatten() {
            match key.as_str() {
                "properties" => {
                    let members = inner.as_object().into_iter().flatten();
                    members.for_each(|(name, member)| check_numbers(member, name, wide, wrong));
                }
                "anyOf" => {
                    inner.as_array().into_iter().flatten().for_each(|s| check_numbers(s, name, wide, wrong));
                }
                "items" | "additionalProperties" => check_numbers(inner, name, wide, wrong),
                _ => {}
            }
        }
    }

    #[test]
    fn every_number_has_a_width() {
        let wide = wide_fields();
        assert!(wide.contains("uptime_ms") && !wide.contains("pid"), "{wide:?}");
        for (name, text) in SCHEMAS {
            let schema: Value = serde_json::from_str(text).expect(name);
            let mut wrong = Vec::new();
            check_numbers(&schema, "", &wide, &mut wrong);
            assert!(wrong.is_empty(), "docs/schemas/{name}.json: {wrong:?}");
        }
    }

    /// Returns a schema without texts and values, with the names of required members sorted.
    fn bare(schema: &Value) -> Value {
        let Some(object) = schema.as_object() else { return schema.clone() };
        if object.contains_key("enum") {
            return json!({ "type": "string" });
        }
        let mut bare = serde_json::Map::new();
        for (keyword, value) in object {
            let value = match keyword.as_str() {
                "description" | "title" | "$id" | "$schema" => continue,
                "properties" => {
                    let members = value.as_object().into_iter().flatten();
                    members.map(|(name, member)| (name.clone(), self::bare(member))).collect()
                }
                "anyOf" => value.as_array().into_iter().flatten().map(self::bare).collect(),
                "required" => {
                    let names: BTreeSet<_> =
                        value.as_array().into_iter().flatten().map(Value::as_str).collect();
                    json!(names)
                }
                _ => self::bare(value),
            };
            bare.insert(keyword.clone(), value);
        }
        Value::Object(bare)
    }

    /// The schemas of the executable's components, and those that are made of a package's interface at run time, follow
    /// the same rules.
    #[test]
    fn schemas_of_commands_are_those_of_replies() {
        let own = crate::components::COMMANDS.iter().map(|(_, own)| own.descriptors);
        let pools = own.chain([sluice_xrl::idl::DESCRIPTORS]).map(DescriptorPool::decode);
        let pools: Vec<DescriptorPool> = pools.collect::<Result<_, _>>().expect("descriptors");
        let mut compared = 0;
        for command in crate::shipped::builtin() {
            let service = pools.iter().find_map(|pool| pool.get_service_by_name(&command.interface));
            // The interfaces of other components are in no crate of the command line.
            let Some(service) = service else { continue };
            let method = service.methods().find(|method| method.name() == command.method).expect("a method");
            let made = of_reply(sluice_xrl::text::schema(&method.output()), &command);
            let name = command.command.id.replace(' ', "-");
            assert_eq!(bare(&crate::schemas::read(&name).expect("a schema")), bare(&made), "{name}");
            compared += 1;
        }
        assert!(compared > 10, "{compared}");
    }
}

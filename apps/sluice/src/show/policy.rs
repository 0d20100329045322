//! `sluice show policy`: policies of the running configuration, and who uses them.

use crate::components::COMMANDS;
use crate::connection::session::Session;
use crate::output::{Failure, Output, Table};
use crate::show::configuration::{running, running_json};
use serde_json::{Value, json};
use sluice_cli::{Values, meant};
use sluice_config::{Node, NodeKind};
use sluice_console::{Call, PolicyHits};
use sluice_xrl::idl::manager::v1 as pb;

/// The subtree with the policies, and the list of policies in it.
const SUBTREE: &str = "policy";
const LIST: &str = "policy-statement";
/// The type of leaves that name policies (`sluice-policy.yang`).
const REFERENCE: &str = "policy-reference";

/// A statement that names a policy.
struct User {
    /// The statement.
    statement: String,
    /// The entry that the statement is inherited from.
    inherited_from: Option<String>,
    /// The names of the policies, in order.
    policies: Vec<String>,
}

/// Shows all policies, or with a name one policy with its definition.
pub async fn show(session: &Session, name: Option<&str>, out: &mut Output) -> Result<(), Failure> {
    let client = session.configuration().await?;
    let subtree = running_json(&client, &[SUBTREE.into()], pb::Form::Json).await?;
    let all: Vec<&Value> = subtree[LIST].as_array().into_iter().flatten().collect();
    let policies: Vec<&Value> = match name {
        Some(name) => all.iter().copied().filter(|policy| policy["name"] == name).collect(),
        None => all.clone(),
    };
    if let Some(name) = name.filter(|_| policies.is_empty()) {
        let names: Vec<String> = all.iter().map(|policy| text(&policy["name"])).collect();
        let hint = meant(name, &names);
        return Err(Failure::failed(format!("there is no policy `{name}`{hint}; `show policy` lists all")));
    }
    let mut users = Vec::new();
    let schema = session.schema().await?;
    for node in schema.iter().filter(|node| node.name != SUBTREE) {
        let path = std::slice::from_ref(&node.name);
        if !has_reference(node) || running_json(&client, path, pb::Form::Json).await?.is_null() {
            continue;
        }
        let rows = running_json(&client, path, pb::Form::EffectiveJson).await?;
        users.extend(rows.as_array().into_iter().flatten().filter_map(|row| user(&schema, row)));
    }
    let mut documents: Vec<Value> = policies.iter().map(|policy| document(policy, &all, &users)).collect();
    if let (Some(name), [document]) = (name, &mut documents[..]) {
        document["hits"] = hits(session, name, document).await?;
    }
    if out.is_json() {
        out.json(&json!({ "policies": documents }));
        return Ok(());
    }
    match name {
        Some(name) => {
            let path = [SUBTREE, LIST, name].map(String::from);
            let definition = running(&client, &path, pb::Form::Text).await?;
            out.line(&format!("{LIST} {name} {{"));
            definition.lines().for_each(|line| out.line(&format!("    {line}")));
            out.line("}");
            documents.iter().for_each(|document| details(document, out));
        }
        None => {
            let mut table = Table::new(&["policy", "terms", "parameters", "used by"]);
            for document in &documents {
                let users = document["users"].as_array().into_iter().flatten();
                let users: Vec<String> = users.map(|user| text(&user["statement"])).collect();
                let calls = document["called_by"].as_array().into_iter().flatten();
                let all: Vec<String> = users.into_iter().chain(calls.map(text)).collect();
                table.row(vec![
                    text(&document["name"]),
                    document["terms"].as_array().map_or(0, Vec::len).to_string(),
                    words(&document["parameters"]),
                    all.join(", "),
                ]);
            }
            out.table(&table, "no policies");
        }
    }
    Ok(())
}

/// Returns the component that counts hits of policies, and its functions.
fn counter() -> Option<(&'static str, PolicyHits)> {
    COMMANDS.iter().find_map(|(class, commands)| Some((*class, commands.policy_hits?)))
}

/// Returns the hits of a policy; null if no component counts them.
async fn hits(session: &Session, name: &str, document: &Value) -> Result<Value, Failure> {
    let Some((class, hits)) = counter() else { return Ok(Value::Null) };
    let terms: Vec<String> = document["terms"].as_array().into_iter().flatten().map(text).collect();
    let (router, target) = (session.router().await?, session.component(class));
    let (timeout, values) = (session.flags.timeout, Values::default());
    Ok((hits.count)(Call { router, target, timeout, values: &values }, name, &terms).await)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn words(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" ")
}

/// Prints users and lists of a policy.
fn details(document: &Value, out: &mut Output) {
    let list = |key: &str| document[key].as_array().cloned().unwrap_or_default();
    for user in list("users") {
        let order = match (user["place"].as_u64(), user["of"].as_u64()) {
            (Some(place), Some(of)) if of > 1 => format!(" (number {place} of {of})"),
            _ => String::new(),
        };
        let from = user["from"].as_str().map(|from| format!(", inherited from {from}")).unwrap_or_default();
        out.line(&format!("used by {}{order}{from}", text(&user["statement"])));
    }
    list("called_by").iter().for_each(|call| out.line(&format!("called by {}", text(call))));
    if list("users").is_empty() && list("called_by").is_empty() {
        out.line("used by nobody");
    }
    list("uses").iter().for_each(|used| out.line(&format!("uses {}", text(used))));
    if let Some((_, hits)) = counter() {
        list("hits").iter().flat_map(hits.lines).for_each(|line| out.line(&line));
    }
}

/// Returns true if a leaf below a node names policies.
fn has_reference(node: &Node) -> bool {
    is_reference(node) || node.children.iter().any(has_reference)
}

fn is_reference(node: &Node) -> bool {
    matches!(&node.kind, NodeKind::Leaf(value) | NodeKind::LeafList(value) if value.type_name == REFERENCE)
}

/// Returns the user in a row of the effective configuration, if the row's statement names policies.
fn user(schema: &[Node], row: &Value) -> Option<User> {
    let statement = row["path"].as_str()?;
    let mut words = statement.split(' ');
    let (mut children, mut node) = (schema, None);
    while let Some(word) = words.next() {
        let found = children.iter().find(|child| child.name == word)?;
        if let NodeKind::List { keys } = &found.kind {
            let _keys: Vec<&str> = words.by_ref().take(keys.len()).collect();
        }
        (children, node) = (&found.children, Some(found));
    }
    node.filter(|node| is_reference(node))?;
    let from = row["from"].as_str().filter(|from| *from != "own");
    Some(User {
        statement: statement.into(),
        inherited_from: from.map(Into::into),
        policies: row["values"].as_array()?.iter().map(text).collect(),
    })
}

/// Returns what is known of a policy.
fn document(policy: &Value, all: &[&Value], users: &[User]) -> Value {
    let name = text(&policy["name"]);
    let uses = |user: &User| {
        let place = user.policies.iter().position(|policy| *policy == name)?;
        Some(json!({
            "statement": user.statement,
            "place": place + 1,
            "of": user.policies.len(),
            "from": user.inherited_from,
        }))
    };
    let terms: Vec<String> = terms(policy).map(|term| text(&term["name"])).collect();
    let mut called_by = Vec::new();
    for other in all {
        for term in self::terms(other) {
            let mut calls = values(&term["then"]["call"]);
            if calls.any(|call| call.split_whitespace().next() == Some(&name)) {
                called_by.push(format!("{} term {}", text(&other["name"]), text(&term["name"])));
            }
        }
    }
    json!({
        "name": name,
        "parameters": values(&policy["parameter"]).collect::<Vec<_>>(),
        "terms": terms,
        "users": users.iter().filter_map(uses).collect::<Vec<_>>(),
        "called_by": called_by,
        "uses": lists(policy),
        "hits": null,
    })
}

fn terms(policy: &Value) -> impl Iterator<Item = &Value> {
    policy["term"].as_array().into_iter().flatten()
}

/// Iterates over the values of a leaf or leaf-list.
fn values(value: &Value) -> impl Iterator<Item = String> {
    let single = value.as_str().map(ToOwned::to_owned);
    single.into_iter().chain(value.as_array().into_iter().flatten().map(text))
}

/// Returns the named lists of a policy, each once, in the order of their names.
fn lists(policy: &Value) -> Vec<String> {
    const BLOCKS: [(&str, &str, &str); 9] = [
        ("from", "prefix-list", "prefix-list"),
        ("except", "prefix-list", "prefix-list"),
        ("from", "as-path", "as-path"),
        ("except", "as-path", "as-path"),
        ("from", "community", "community"),
        ("except", "community", "community"),
        ("then", "community-add", "community"),
        ("then", "community-set", "community"),
        ("then", "community-delete", "community"),
    ];
    let mut found: Vec<String> = terms(policy)
        .flat_map(|term| {
            BLOCKS.into_iter().flat_map(move |(block, name, list)| {
                values(&term[block][name]).map(move |value| format!("{list} {value}"))
            })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

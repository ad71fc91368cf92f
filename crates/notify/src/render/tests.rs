//! What templates make of an event, and of hostile values.

use minijinja::context;
use proptest::prelude::*;

use super::*;
use crate::Workflows;
use crate::examples::{audience, followed, words};

fn rendered(
    workflow: Workflow,
    channel: Channel,
    wished: Option<&str>,
    who: Value,
) -> Result<Words, RenderError> {
    let workflows = Workflows::new(vec![audience()], vec![workflow]).unwrap();
    let workflow = &workflows.all()[0];
    let locale = workflows.templates().locale(workflow, channel, wished);
    let context = context! { payload => context! { who }, recipient => context! { name => "Ann" } };
    workflows
        .templates()
        .words(workflow, (channel, &locale), &context)
}

/// The templates for in app, in English, with this body.
fn with_body(body: &str) -> Workflow {
    let mut workflow = followed();
    let key = (Channel::InApp, "en".to_owned());
    workflow.templates.insert(key, words("{{ payload.who }}", body));
    workflow
}

#[test]
fn the_nearest_locale_is_taken() {
    for (wished, body) in [
        (None, "Bob follows you."),
        (Some("de"), "Bob folgt dir."),
        (Some("de-AT"), "Bob folgt dir."),
        (Some("DE_at_x"), "Bob folgt dir."),
        (Some("fr-CA"), "Bob follows you."),
        (Some(""), "Bob follows you."),
        (Some("-"), "Bob follows you."),
    ] {
        let words = rendered(followed(), Channel::InApp, wished, "Bob".into()).unwrap();
        assert_eq!(words.body, body, "{wished:?}");
    }
}

#[test]
fn html_is_escaped_and_the_rest_is_plain() {
    let who = "<script>alert('x')</script> & \"Co\"";
    let words = rendered(followed(), Channel::Email, None, who.into()).unwrap();
    let html = words.html.unwrap();
    assert!(html.starts_with("<p>&lt;script&gt;"), "{html}");
    assert!(!html.contains("<script") && !html.contains('"'), "{html}");
    assert_eq!(words.title, format!("{who} follows you"));
}

#[test]
fn a_missing_field_is_named_with_its_place() {
    let error = rendered(
        with_body("{{ payload.who }} {{ payload.shop.name }}"),
        Channel::InApp,
        None,
        "Bob".into(),
    );
    let said = error.unwrap_err().to_string();
    for part in ["\"followed\"", "in_app", "\"en\"", "body", "payload.shop.name"] {
        assert!(said.contains(part), "{said:?} does not name {part}");
    }
    assert!(!said.contains("Bob") && !said.contains("payload.who"), "{said}");
    let asked = "{% if payload.shop is defined %}x{% else %}y{% endif %}{{ payload.shop|default('z') }}";
    assert_eq!(
        rendered(with_body(asked), Channel::InApp, None, "Bob".into())
            .unwrap()
            .body,
        "yz"
    );
}

#[test]
fn a_template_that_does_too_much_is_ended() {
    let endless = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}";
    let error = rendered(with_body(endless), Channel::InApp, None, "Bob".into()).unwrap_err();
    assert!(error.to_string().contains("too much"), "{error}");
}

#[test]
fn an_error_quotes_no_value() {
    let error = rendered(
        with_body("{{ payload.who * 'x' }}"),
        Channel::InApp,
        None,
        "secret".into(),
    );
    assert!(!error.unwrap_err().to_string().contains("secret"));
}

#[test]
fn it_is_known_which_words_depend_on_the_reader() {
    let workflows = Workflows::new(vec![audience()], vec![followed()]).unwrap();
    let (templates, workflow) = (workflows.templates(), &workflows.all()[0]);
    assert!(!templates.is_personal(workflow, Channel::InApp, "de"));
    assert!(templates.is_personal(workflow, Channel::Email, "en"));
}

proptest! {
    #[test]
    fn whatever_a_name_is_the_words_are_safe(who in any::<String>()) {
        let words = rendered(with_body("{{ payload.who }}"), Channel::InApp, None, who.clone().into()).unwrap();
        prop_assert!(!words.title.chars().any(char::is_control));
        prop_assert!(words.title.chars().count() <= text::TITLE);
        let mail = rendered(followed(), Channel::Email, None, who.into()).unwrap();
        let inside = mail.html.unwrap();
        let inside = inside.trim_start_matches("<p>").trim_end_matches("</p>");
        prop_assert!(!inside.contains(['<', '>', '"', '\'']));
    }
}

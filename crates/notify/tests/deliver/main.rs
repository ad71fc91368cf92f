//! What the channels promise, on real servers: a mail server, and urls that answer.

mod conformance_email;
mod conformance_push;
mod mail;
mod mail_answers;
mod mail_relayed;
mod mail_unanswered;
mod push;
mod push_relayed;
mod support;
mod urls;
mod wrapped;

//! Components of third parties: in Python on the client of this project, and in Go on the documents alone.

mod bomb;
mod floods;
mod guard;
mod hello;
mod hostile;
mod latency;
mod live;
mod origins;
mod output;
mod outside;
mod programs;
mod relay;
mod router;
mod sandbox;
mod shared;

//! Runs digits on the floats of a file and prints what it gives.
use std::sync::Mutex;

static ARENA: Mutex<digits::Arena> = Mutex::new(digits::Arena::new());

fn main() {
    let bytes = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let floats: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
    let image: &[f32; digits::IMAGE_ELEMENTS] = floats.as_slice().try_into().unwrap();
    let mut probabilities = [0.0; digits::PROBABILITIES_ELEMENTS];
    assert!(digits::runs_here());
    digits::run(&mut ARENA.lock().unwrap(), image, &mut probabilities).unwrap();
    probabilities.iter().for_each(|p| println!("{p}"));
}

//! The model under random use, compared after every step with the sentences of the contract, read naively.

mod check;
mod steps;
mod world;

use proptest::prelude::*;
use steps::step;
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_model_keeps_every_sentence(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.check();
        }
    }

    #[test]
    fn the_same_steps_give_the_same_world(steps in prop::collection::vec(step(), 1..60)) {
        let run = || {
            let mut world = World::new();
            steps.iter().for_each(|step| world.take(step));
            format!("{:?}", world.model)
        };
        prop_assert_eq!(run(), run());
    }
}

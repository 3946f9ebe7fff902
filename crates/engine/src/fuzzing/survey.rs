//! Records of `/proc` and `/sys`, from which the survey describes a machine.

/// The survey of a recorded tree.
pub mod survey_tree {
    use std::path::Path;

    use crate::survey::of_tree;
    use crate::survey::tree::Tree;

    /// The machine is always a whole document, and what is not known has a reason.
    pub fn read(input: &[u8]) -> bool {
        let tree = Tree::of_record(&String::from_utf8_lossy(input));
        let machine = of_tree(tree, Some("/data"));
        let text = serde_json::to_string(&machine).unwrap_or_default();
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        assert!(machine["unknown"].is_object());
        machine["cpu"]["model"].is_string()
    }

    /// The machines that the engine's own tests know.
    pub fn seeds() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/trees");
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path()).collect();
        paths.sort();
        paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
    }
}

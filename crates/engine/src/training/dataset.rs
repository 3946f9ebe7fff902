//! A data set as DLIO lays it out: `train/img_003_of_168.npz`, sizes spread by DLIO's own formula.

use std::path::{Path, PathBuf};

use crate::training::csv::spell;

use super::random::Mersenne;
use super::sink::{Halt, Sink};
use super::{hdf5, image, npz, parquet, tfrecord};
use crate::contract::declare::{choice, integer, number, required, text, Group};
use crate::contract::kernel::Error;
use crate::contract::parameter::Role;
use crate::object::options::ReachParameters;
use crate::{parameters, words};

words! {
    /// A file format; its word is also the ending of its files.
    #[allow(missing_docs, reason = "the formats' own names")]
    pub enum Format {
        Npz = "npz",
        Npy = "npy",
        Tfrecord = "tfrecord",
        Hdf5 = "hdf5",
        Jpeg = "jpeg",
        Png = "png",
        Csv = "csv",
        Binary = "bin",
        Parquet = "parquet",
    }
}

parameters! {
    /// The parameters that describe a data set on disk.
    pub struct DatasetParameters {
        path: PathBuf = required("data folder, or s3://BUCKET/PREFIX; the files are below its `train`"),
        format: Format = choice("format of the files"),
        files: u64 = integer("number of files", "", (0, 1 << 32), 168),
        samples_per_file: u64 = integer("samples per file", "", (0, 1 << 40), 1),
        record_bytes: f64 = number("mean size of a sample", "B", (0.0, 1e12), 146_600_628.0).role(Role::Size),
        record_bytes_stdev: f64 = number("standard deviation of that size", "B", (0.0, 1e12), 0.0),
        subfolders: u64 = integer("subfolders for the files; 0 for none", "", (0, 1 << 20), 0),
        prefix: String = text("prefix of file names", "img"),
        seed: u32 = integer("seed of sizes and content (DLIO uses 10)", "", (0, 0xFFFF_FFFF), 10),
        row_group: u64 = integer("parquet: rows in a group; 0 for one group", "", (0, 1 << 40), 0),
        columns: u64 = integer("parquet: columns that share a row", "", (0, 10_000), 1),
        reach: ReachParameters = Group,
    }
}

impl Format {
    /// Whether a loader fetches single samples out of a file, rather than whole files.
    #[must_use]
    pub fn by_sample(self) -> bool {
        matches!(self, Self::Tfrecord | Self::Binary | Self::Hdf5 | Self::Parquet)
    }
}

/// What is to be on disk.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The data folder; files are below its `train`.
    pub folder: PathBuf,
    /// The format.
    pub format: Format,
    /// How many files.
    pub files: u64,
    /// Samples in each file.
    pub samples: u64,
    /// Mean bytes of a sample.
    pub record: f64,
    /// Standard deviation of that.
    pub stdev: f64,
    /// Folders below `train` that the files are dealt to; at most 1 means none.
    pub subfolders: u64,
    /// How file names begin.
    pub prefix: String,
    /// Seeds sizes and content.
    pub seed: u32,
    /// Parquet: rows in a group, columns in a row.
    pub group: u64,
    /// Columns in a row of Parquet.
    pub columns: u64,
}

impl Layout {
    /// The one that these parameters say.
    #[must_use]
    pub fn of(parameters: &DatasetParameters) -> Self {
        Self {
            folder: parameters.path.clone(),
            format: parameters.format,
            files: parameters.files,
            samples: parameters.samples_per_file.max(1),
            record: parameters.record_bytes,
            stdev: parameters.record_bytes_stdev,
            subfolders: parameters.subfolders,
            prefix: parameters.prefix.clone(),
            seed: parameters.seed,
            group: parameters.row_group,
            columns: parameters.columns,
        }
    }

    /// The path of file `number`.
    #[must_use]
    pub fn path(&self, number: u64) -> PathBuf {
        self.folder.join(self.name(number))
    }

    /// The same, in the data folder.
    #[must_use]
    pub fn name(&self, number: u64) -> PathBuf {
        let digits = |count: u64| count.to_string().len();
        let name = format!(
            "{}_{number:0width$}_of_{}.{}",
            self.prefix,
            self.files,
            self.format.word(),
            width = digits(self.files)
        );
        let train = Path::new("train");
        if self.subfolders > 1 {
            let width = digits(self.subfolders);
            train.join(format!("{:0width$}", number % self.subfolders)).join(name)
        } else {
            train.join(name)
        }
    }

    /// Rows and columns of each file's samples: each ~ N(sqrt(L), sigma / (2 sqrt(L))) cut to a whole
    /// number, in the order that DLIO draws them with `NumPy`'s legacy generator.
    #[must_use]
    pub fn dimensions(&self) -> Vec<(u32, u32)> {
        let side = self.record.sqrt();
        let mean = side.floor();
        let spread = self.stdev / 2.0 / side;
        if spread == 0.0 {
            return vec![(mean as u32, mean as u32); self.files as usize];
        }
        let mut random = Mersenne::new(self.seed);
        let mut draw = || (mean + spread * random.normal()).max(1.0) as u32;
        (0..self.files)
            .map(|_| {
                let first = draw();
                (first, draw())
            })
            .collect()
    }

    /// Bytes of a file with these dimensions, and whether that is exact.
    #[must_use]
    pub fn size(&self, (rows, columns): (u32, u32)) -> (u64, bool) {
        let (rows, columns, samples) = (u64::from(rows), u64::from(columns), self.samples);
        match self.format {
            Format::Npz => (npz::size(rows, columns, samples), true),
            Format::Npy => (npz::npy_size(rows, columns, samples), true),
            Format::Tfrecord => (tfrecord::record_size(rows * columns) * samples, true),
            Format::Hdf5 => (hdf5::size(rows, columns, samples), true),
            Format::Jpeg => (image::jpeg_size(rows, columns), true),
            Format::Png => (image::png_size(rows, columns), true),
            // a number and its comma, 0 to 255 alike: 3.57 bytes
            Format::Csv => ((rows * columns * samples) * 914 / 256, false),
            Format::Binary => (rows * columns * samples, true),
            Format::Parquet => (self.shape().bytes(), false),
        }
    }

    fn shape(&self) -> parquet::Shape {
        parquet::Shape {
            rows: self.samples,
            group: if self.group == 0 { self.samples } else { self.group },
            record: self.record as u64,
            columns: self.columns.max(1),
        }
    }

    /// Writes what file `number` holds.
    pub fn write(&self, sink: &mut Sink<'_>, (rows, columns): (u32, u32)) -> Result<(), Halt> {
        let (rows, columns) = (u64::from(rows), u64::from(columns));
        match self.format {
            Format::Npz => npz::write(sink, rows, columns, self.samples),
            Format::Npy => npz::write_npy(sink, rows, columns, self.samples),
            Format::Tfrecord => tfrecord::write(sink, rows * columns, self.samples),
            Format::Hdf5 => hdf5::write(sink, rows, columns, self.samples),
            Format::Jpeg => image::write_jpeg(sink, rows, columns),
            Format::Png => image::write_png(sink, rows, columns),
            Format::Csv => write_csv(sink, rows * columns, self.samples),
            Format::Binary => sink.noise(rows * columns * self.samples, |_| ()),
            Format::Parquet => parquet::write(sink, self.shape()),
        }
    }
}

fn write_csv(sink: &mut Sink<'_>, values: u64, samples: u64) -> Result<(), Halt> {
    let words: Vec<String> = (0..256).map(|value| format!("{value},")).collect();
    let mut noise = vec![0_u8; 1 << 14];
    let mut line = Vec::with_capacity(noise.len() * 4);
    for _ in 0..samples {
        let mut left = values;
        while left > 0 {
            let count = left.min(noise.len() as u64) as usize;
            left -= count as u64;
            sink.peek_noise(&mut noise[..count]);
            spell(&noise[..count], &words, &mut line);
            if left == 0 {
                if let Some(comma) = line.last_mut() {
                    *comma = b'\n';
                }
            }
            sink.put(&line)?;
        }
    }
    Ok(())
}

/// The files of `format` below `folder/train`, sorted as DLIO sorts them, and the others that are there.
pub fn list(folder: &Path, format: Format) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Error> {
    let train = folder.join("train");
    let (mut files, mut others, mut folders) = (Vec::new(), Vec::new(), vec![train]);
    let mut depth_left = 10_000;
    while let Some(place) = folders.pop() {
        let entries = std::fs::read_dir(&place).map_err(|error| {
            Error::Machine(
                format!("no data set under {}: {}: {error}; generate it first", folder.display(), place.display()),
                error.raw_os_error(),
            )
        })?;
        for entry in entries {
            let entry = entry.map_err(|error| Error::machine(format!("list {}", place.display()), &error))?;
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth_left > 0 {
                depth_left -= 1;
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == format.word()) {
                files.push(path);
            } else if !is_folder {
                others.push(path);
            }
        }
    }
    files.sort_unstable();
    others.sort_unstable();
    Ok((files, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(format: Format) -> Layout {
        Layout {
            folder: "/data".into(),
            format,
            files: 168,
            samples: 1,
            record: 146_600_628.0,
            stdev: 68_341_808.0,
            subfolders: 0,
            prefix: "img".into(),
            seed: 10,
            group: 0,
            columns: 0,
        }
    }

    #[test]
    fn names_are_those_of_dlio() {
        assert_eq!(layout(Format::Npz).path(3), Path::new("/data/train/img_003_of_168.npz"));
        let dealt = Layout { subfolders: 12, ..layout(Format::Jpeg) };
        assert_eq!(dealt.path(14), Path::new("/data/train/02/img_014_of_168.jpeg"));
    }

    #[test]
    fn sizes_have_the_spread_asked_for() {
        let sizes: Vec<_> =
            layout(Format::Binary).dimensions().iter().map(|&(a, b)| f64::from(a) * f64::from(b)).collect();
        let mean = sizes.iter().sum::<f64>() / 168.0;
        let deviation = (sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 167.0).sqrt();
        assert!((mean / 146_600_628.0 - 1.0).abs() < 0.06, "{mean}");
        // two independent sides: sigma / sqrt(2) of the product
        assert!((deviation / (68_341_808.0 / 2_f64.sqrt()) - 1.0).abs() < 0.15, "{deviation}");
    }
}

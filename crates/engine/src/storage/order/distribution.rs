//! Distributions of random accesses over a region: even, Zipf, Pareto, normal, or by zones.

use crate::timing::rng::{mix, Rng};

/// How often each unit of the region is visited.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Distribution {
    /// All alike.
    #[default]
    Even,
    /// The k-th most popular with probability proportional to k^-theta.
    Zipf(f64),
    /// Rank `n u^e` with `e = ln h / ln (1 - h)`: the share `h` of the region gets the share `1 - h` of the visits.
    Pareto(f64),
    /// A normal distribution around the middle, with this standard deviation as a share of the region.
    Normal(f64),
    /// Zones from the region's beginning on: share of visits, share of the region.
    Zoned(Vec<(f64, f64)>),
}

impl Distribution {
    /// Reads `random`, `zipf:1.2`, `pareto:0.2`, `normal:20` or `zoned:60/10:30/20:10/70`, as fio spells them.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let number = |least: f64, most: f64, default: Option<f64>| match (value, default) {
            ("", Some(default)) => Ok(default),
            _ => match value.parse::<f64>() {
                Ok(number) if number >= least && number <= most => Ok(number),
                _ => Err(format!("random_distribution {text}: {name} needs a number from {least} to {most}")),
            },
        };
        match name {
            "random" | "" => Ok(Self::Even),
            "zipf" => Ok(Self::Zipf(number(0.01, 10.0, Some(1.1))?)),
            "pareto" => Ok(Self::Pareto(number(0.001, 0.999, Some(0.2))?)),
            "normal" | "gauss" => Ok(Self::Normal(number(0.01, 100.0, Some(10.0))? / 100.0)),
            "zoned" => zones(text, value),
            _ => Err(format!("random_distribution {text}: use random, zipf:N, pareto:N, normal:N or zoned:A/B:C/D")),
        }
    }
}

fn zones(text: &str, value: &str) -> Result<Distribution, String> {
    let wrong = || {
        format!(
            "random_distribution {text}: zones are SHARE/SIZE:SHARE/SIZE…, each in percent, 100 in \
        total"
        )
    };
    let mut found = Vec::new();
    for zone in value.split(':') {
        let (visits, size) = zone.split_once('/').ok_or_else(wrong)?;
        let percent =
            |part: &str| part.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share)).ok_or_else(wrong);
        found.push((percent(visits)? / 100.0, percent(size)? / 100.0));
    }
    let (visits, sizes) = found.iter().fold((0.0, 0.0), |sum, zone| (sum.0 + zone.0, sum.1 + zone.1));
    if (visits - 1.0).abs() > 1e-6
        || (sizes - 1.0).abs() > 1e-6
        || found.iter().any(|zone| zone.0 > 0.0 && zone.1 <= 0.0)
    {
        return Err(wrong());
    }
    Ok(Distribution::Zoned(found))
}

/// Draws units by a spread, O(1) in time and memory however many there are.
#[derive(Debug, Clone)]
pub struct Sampler {
    units: u64,
    key: u64,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Even,
    Zipf { theta: f64, low: f64, high: f64, sure: f64 },
    Pareto { power: f64 },
    Normal { deviation: f64 },
    Zoned(Vec<(f64, u64, u64)>),
}

#[allow(clippy::cast_precision_loss, reason = "more than 2^53 units of 512 B are more than a device holds")]
impl Sampler {
    /// A sampler of `units` units; `key` decides which ones are popular.
    #[must_use]
    pub fn new(distribution: &Distribution, units: u64, key: u64) -> Self {
        let kind = match distribution {
            Distribution::Even => Kind::Even,
            &Distribution::Zipf(theta) => Kind::Zipf {
                theta,
                low: integral(1.5, theta) - 1.0,
                high: integral(units as f64 + 0.5, theta),
                sure: 2.0 - inverse(integral(2.5, theta) - 2.0_f64.powf(-theta), theta),
            },
            &Distribution::Pareto(h) => Kind::Pareto { power: h.ln() / (1.0 - h).ln() },
            &Distribution::Normal(share) => Kind::Normal { deviation: share * units as f64 },
            Distribution::Zoned(zones) => {
                let (mut visits, mut size) = (0.0, 0.0);
                let mut edges = Vec::with_capacity(zones.len());
                for zone in zones {
                    let from = (size * units as f64).round() as u64;
                    visits += zone.0;
                    size += zone.1;
                    let to = ((size * units as f64).round() as u64).min(units);
                    edges.push((visits, from.min(units - 1), to.max(from.min(units - 1) + 1)));
                }
                Kind::Zoned(edges)
            }
        };
        Self { units, key, kind }
    }

    /// The next unit.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match &self.kind {
            Kind::Even => rng.below(self.units),
            &Kind::Zipf { theta, low, high, sure } => {
                // Rejection-inversion (Hörmann & Derflinger 1996): exact for any exponent, about 1.1 draws each.
                let rank = loop {
                    let u = high + rng.share() * (low - high);
                    let x = inverse(u, theta);
                    let k = x.round().clamp(1.0, self.units as f64);
                    if k - x <= sure || u >= integral(k + 0.5, theta) - k.powf(-theta) {
                        break k as u64 - 1;
                    }
                };
                self.scatter(rank)
            }
            &Kind::Pareto { power } => {
                let rank = (self.units as f64 * rng.share().powf(power)) as u64;
                self.scatter(rank.min(self.units - 1))
            }
            &Kind::Normal { deviation } => loop {
                // Box & Muller 1958; what falls outside is drawn again.
                let (u, v) = (rng.share(), rng.share());
                let z = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                let at = (self.units as f64 / 2.0 + z * deviation).floor();
                if at >= 0.0 && at < self.units as f64 {
                    break at as u64;
                }
            },
            Kind::Zoned(edges) => {
                let draw = rng.share();
                let zone = edges.iter().find(|zone| draw <= zone.0).or(edges.last());
                zone.map_or(0, |&(_, from, to)| from + rng.below(to - from))
            }
        }
    }

    /// Popular units are all over the region, not side by side: a bijection of ranks to units.
    #[inline]
    fn scatter(&self, rank: u64) -> u64 {
        let bits = (u64::BITS - (self.units - 1).leading_zeros()).max(1);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut value = rank;
        loop {
            for round in 0..3 {
                let part = mix(self.key.wrapping_add(round));
                value = value.wrapping_mul(part | 1).wrapping_add(part >> 7) & mask;
                value ^= value >> (bits / 2).max(1);
            }
            if value < self.units {
                return value;
            }
        }
    }
}

/// The integral of x^-theta, and its inverse; both go over smoothly into theta = 1.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    let scaled = (1.0 - theta) * log;
    if scaled.abs() < 1e-8 {
        log * (1.0 + scaled / 2.0)
    } else {
        scaled.exp_m1() / (1.0 - theta)
    }
}

fn inverse(y: f64, theta: f64) -> f64 {
    let scaled = (y * (1.0 - theta)).max(-1.0 + 1e-16);
    if scaled.abs() < 1e-8 {
        (y * (1.0 - scaled / 2.0)).exp()
    } else {
        (scaled.ln_1p() / (1.0 - theta)).exp()
    }
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss, reason = "counts of a test are small")]
pub(crate) mod tests {
    use super::*;

    const VISITS: u64 = 200_000;

    fn counts(distribution: &Distribution, units: u64) -> Vec<u64> {
        let (sampler, mut rng) = (Sampler::new(distribution, units, 42), Rng::new(42));
        let mut counts = vec![0; units as usize];
        for _ in 0..VISITS {
            counts[sampler.draw(&mut rng) as usize] += 1;
        }
        counts
    }

    /// Pearson's statistic against expected shares; its mean is the degrees of freedom, its deviation sqrt(2 df).
    pub fn chi_square_is_likely(counts: &[u64], shares: &[f64]) {
        let total: f64 = shares.iter().sum();
        let visits = counts.iter().sum::<u64>() as f64;
        let statistic: f64 = counts
            .iter()
            .zip(shares)
            .map(|(&count, share)| {
                let expected = visits * share / total;
                assert!(expected > 5.0, "too few expected for the test: {expected}");
                (count as f64 - expected).powi(2) / expected
            })
            .sum();
        let freedom = counts.len() as f64 - 1.0;
        let off = (statistic - freedom) / (2.0 * freedom).sqrt();
        assert!(off.abs() < 4.0, "chi-square {statistic:.1} with {freedom} degrees of freedom");
    }

    #[test]
    fn zipf_is_exact_and_scattered() {
        for theta in [0.5, 0.99, 1.0, 1.2] {
            let mut counts = counts(&Distribution::Zipf(theta), 100);
            assert_ne!(counts.iter().position(|count| count == counts.iter().max().unwrap()), Some(0));
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let shares: Vec<f64> = (1..=100).map(|k| f64::from(k).powf(-theta)).collect();
            // Sorting favours each place a little, so the tail is compared as one.
            let fold = |all: &[f64]| {
                let mut head = all[..5].to_vec();
                head.push(all[5..].iter().sum());
                head
            };
            let heads: Vec<u64> =
                fold(&counts.iter().map(|&c| c as f64).collect::<Vec<_>>()).iter().map(|&c| c as u64).collect();
            chi_square_is_likely(&heads, &fold(&shares));
        }
    }

    #[test]
    fn an_even_spread_is_even() {
        chi_square_is_likely(&counts(&Distribution::Even, 333), &vec![1.0; 333]);
    }

    #[test]
    fn pareto_gives_the_share_that_its_name_promises() {
        let mut counts = counts(&Distribution::Pareto(0.2), 1000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: u64 = counts[..200].iter().sum();
        assert!((top as f64 / VISITS as f64 - 0.8).abs() < 0.01, "{top}");
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let counts = counts(&Distribution::Normal(0.1), 1000);
        let mean = counts.iter().enumerate().map(|(at, &c)| (at as f64 + 0.5) * c as f64).sum::<f64>() / VISITS as f64;
        let variance =
            counts.iter().enumerate().map(|(at, &c)| (at as f64 + 0.5 - mean).powi(2) * c as f64).sum::<f64>()
                / VISITS as f64;
        assert!((mean - 500.0).abs() < 1.0 && (variance.sqrt() - 100.0).abs() < 1.0, "{mean} {variance}");
    }

    #[test]
    fn zones_get_their_visits() {
        let counts = counts(&Distribution::parse("zoned:60/10:30/20:8/30:2/40").unwrap(), 1000);
        let sums: Vec<u64> = [0..100, 100..300, 300..600, 600..1000].map(|zone| counts[zone].iter().sum()).to_vec();
        chi_square_is_likely(&sums, &[0.6, 0.3, 0.08, 0.02]);
    }
}

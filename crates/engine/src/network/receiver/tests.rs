//! Tests of the receiver of answers.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use super::*;

struct Pair {
    far: TcpStream,
    near: TcpStream,
    poll: OwnedFd,
}

fn pair() -> Pair {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    far.set_nodelay(true).unwrap();
    let near = listening.accept().unwrap().0;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let data = epoll::EventData::new_u64(near.as_raw_fd() as u64);
    epoll::add(&poll, &near, data, epoll::EventFlags::IN).unwrap();
    Pair { far, near, poll }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nDate: x\r\ntransfer-Encoding : Chunked\r\n\r\n";

/// Follows the near end, whose head came.
fn follow(receiver: &mut Receiver, Pair { far, near, .. }: &mut Pair, room: usize) {
    receiver.follow(near.as_raw_fd(), now_ns(), HEAD.len() + room, false);
    far.write_all(HEAD.as_bytes()).unwrap();
    assert!(receiver.wait(soon(), true).unwrap().is_empty());
}

fn soon() -> u64 {
    now_ns() + 20 * MS
}

#[test]
fn a_followed_answer_comes_back_whole_when_it_is_complete() {
    let mut pair = pair();
    let (mut receiver, fd) = (Receiver::new(pair.poll.as_raw_fd()).unwrap(), pair.near.as_raw_fd());
    let begun = now_ns();
    follow(&mut receiver, &mut pair, 1 << 20);
    assert_eq!(receiver.gap_ns, 0, "the time to a first piece is no gap");
    // Servers end events with one empty line or with two.
    for piece in [b"b\r\ndata: one\n\n\r\n".as_slice(), b"d\r\ndata: two\r\n\r\n\r\n", b"0\r"] {
        pair.far.write_all(piece).unwrap();
        assert!(receiver.wait(soon(), true).unwrap().is_empty());
    }
    assert!(receiver.gap_ns > 0);
    pair.far.write_all(b"\n\r\n").unwrap();
    assert_eq!(receiver.wait(now_ns() + 10_000 * MS, false).unwrap(), [fd]);
    let pieces = receiver.take(fd).unwrap();
    assert_eq!(&pieces.bytes[HEAD.len()..], b"b\r\ndata: one\n\n\r\nd\r\ndata: two\r\n\r\n\r\n0\r\n\r\n");
    assert_eq!(pieces.sizes, [HEAD.len(), 16, 18, 2, 3]);
    assert!(pieces.times_ns.is_sorted() && pieces.times_ns[0] > begun && pieces.times_ns[4] < now_ns());
    assert_eq!(receiver.take(fd), None);
}

#[test]
fn a_fine_wait_that_is_over_reads_a_few_and_leaves_the_rest_to_the_next() {
    let (mut pairs, poll) = (Vec::new(), epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
    for _ in 0..3 * MIN_AT_ONCE {
        let mut one = pair();
        let data = epoll::EventData::new_u64(one.near.as_raw_fd() as u64);
        epoll::add(&poll, &one.near, data, epoll::EventFlags::IN).unwrap();
        one.far.write_all(HEAD.as_bytes()).unwrap();
        pairs.push(one);
    }
    let mut receiver = Receiver::new(poll.as_raw_fd()).unwrap();
    for one in &pairs {
        receiver.follow(one.near.as_raw_fd(), 0, 1 << 20, false);
    }
    let read = |receiver: &Receiver| receiver.followed.values().filter(|one| !one.pieces.sizes.is_empty()).count();
    for turn in 1..=3 {
        assert!(receiver.wait(now_ns(), true).unwrap().is_empty());
        assert_eq!(read(&receiver), turn * MIN_AT_ONCE);
    }
    for one in &mut pairs {
        one.far.write_all(b"3\r\ntwo\r\n").unwrap();
    }
    assert!(receiver.wait(now_ns(), false).unwrap().is_empty());
    let twice = receiver.followed.values().filter(|one| one.pieces.sizes.len() == 2).count();
    assert_eq!(twice, pairs.len(), "a wait that need not be fine reads all");
}

#[test]
fn an_end_and_a_lack_of_room_are_the_callers() {
    let mut pair = pair();
    let (mut receiver, fd) = (Receiver::new(pair.poll.as_raw_fd()).unwrap(), pair.near.as_raw_fd());
    follow(&mut receiver, &mut pair, 8);
    pair.far.write_all(b"f\r\no").unwrap();
    assert!(receiver.wait(soon(), true).unwrap().is_empty());
    pair.far.write_all(b"more").unwrap();
    assert_eq!(receiver.wait(now_ns() + 10_000 * MS, false).unwrap(), [fd]);
    drop(pair.far);
    assert_eq!(receiver.wait(now_ns() + 10_000 * MS, false).unwrap(), [fd]);
    assert_eq!(receiver.take(fd).unwrap().sizes, [HEAD.len(), 4, 4, 0]);
    assert_eq!(receiver.wait(soon(), true).unwrap(), [fd], "what is not followed is not read");
}

#[test]
fn a_head_that_says_chunks_is_kept_with_them_and_what_is_none_is_the_callers() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(LONG));
    for (pieces, is_kept) in [
        (&[HEAD][..], true),
        (&[HEAD, "5\r\ndata:"], true),
        (&[HEAD, "0\r\n\r\n"], false),
        (&[HEAD, "data:\r\n"], false),
        (&["H", "TTP/1.1 2", &HEAD[10..HEAD.len() - 1]], true),
        (&[&HEAD[..HEAD.len() - 3], "\n\r", "\n5\r\n"], true),
        (&["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"], false),
        (&["HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"], false),
        (&["HTTP/1.1 200 OK\r\nX: Transfer-Encoding: chunked\r\n\r\n"], false),
        (&["HTTP/1.1 200 OK\r\n\r\nTransfer-Encoding: chunked\r\n\r\n"], false),
        (&["SSH-2.0\r\nTransfer-Encoding: chunked\r\n\r\n"], false),
        (&["x"], false),
        (&[&long], false),
    ] {
        let Pair { mut far, near, poll } = pair();
        let (mut receiver, fd) = (Receiver::new(poll.as_raw_fd()).unwrap(), near.as_raw_fd());
        receiver.follow(fd, now_ns(), 1 << 20, false);
        let mut found = Vec::new();
        for piece in pieces {
            assert!(found.is_empty(), "{pieces:?}");
            far.write_all(piece.as_bytes()).unwrap();
            found = receiver.wait(soon(), true).unwrap();
        }
        assert_eq!(found.is_empty(), is_kept, "{pieces:?}");
    }
}

#[test]
fn what_goes_on_needs_a_look_at_each_piece() {
    let Pair { mut far, near, poll } = pair();
    let (mut receiver, fd) = (Receiver::new(poll.as_raw_fd()).unwrap(), near.as_raw_fd());
    receiver.follow(fd, now_ns(), 1 << 20, true);
    for turn in 1..=2 {
        far.write_all(HEAD.as_bytes()).unwrap();
        assert_eq!(receiver.wait(now_ns() + 10_000 * MS, false).unwrap(), [fd]);
        assert_eq!(receiver.followed[&fd].pieces.sizes.len(), turn);
    }
}

#[test]
fn an_error_is_the_callers_with_its_number() {
    let mut pair = pair();
    let (mut receiver, fd) = (Receiver::new(pair.poll.as_raw_fd()).unwrap(), pair.near.as_raw_fd());
    follow(&mut receiver, &mut pair, 1 << 20);
    // What is closed with something unread resets the connection.
    (&pair.near).write_all(b"unread").unwrap();
    drop(pair.far);
    assert_eq!(receiver.wait(now_ns() + 10_000 * MS, false).unwrap(), [fd]);
    let pieces = receiver.take(fd).unwrap();
    assert_eq!((pieces.sizes, pieces.errno), (vec![HEAD.len()], libc::ECONNRESET));
}

#[test]
fn a_stamp_counts_where_it_can_be_right() {
    let now = now_ns();
    let clock = Stamped { offset_ns: 7_000, since_ns: now - 1_000_000, looked_ns: now };
    let stamp = |came: u64| Some(came as i64 + 7_000);
    let moment = |stamp| clock.moment(stamp, now - 600_000, now);
    assert_eq!(moment(stamp(now - 500_000)), Some(now - 500_000));
    for wrong in [None, stamp(now - 700_000), stamp(now - 2_000_000), stamp(now), Some(i64::MIN), Some(0)] {
        assert_eq!(moment(wrong), None);
    }
}

#[test]
fn a_clock_that_is_set_makes_earlier_stamps_wrong() {
    let hour = 3_600_000_000_000;
    let before = Stamped { offset_ns: 7_000, since_ns: 0, looked_ns: 1_000_000 };
    let slewed = before.followed((7_000 + STEP_NS as i64, 2_000_000));
    assert_eq!((slewed.offset_ns, slewed.since_ns, slewed.looked_ns), (107_000, 0, 2_000_000));
    assert_eq!(slewed.moment(Some(1_500_000 + 107_000), 1_200_000, 2_000_000), Some(1_500_000));
    for step in [STEP_NS as i64 + 1, -(STEP_NS as i64) - 1, hour, -hour] {
        let set = slewed.followed((107_000 + step, 3_000_000));
        assert_eq!((set.offset_ns, set.since_ns), (107_000 + step, 3_000_000), "{step}");
        let stamp = |came: i64| Some(came + 107_000 + step);
        assert_eq!(set.moment(stamp(2_900_000), 2_000_000, 4_000_000), None, "{step}");
        assert_eq!(set.moment(stamp(3_500_000), 2_000_000, 4_000_000), Some(3_500_000), "{step}");
        assert_eq!(set.followed((107_000 + step, 5_000_000)).since_ns, 3_000_000, "{step}");
    }
}

#[test]
fn the_systems_clock_is_followed() {
    let Pair { mut far, near, poll } = pair();
    let (mut receiver, fd) = (Receiver::new(poll.as_raw_fd()).unwrap(), near.as_raw_fd());
    // As after an hour's step that no one has looked at yet.
    receiver.stamped.offset_ns += 3_600_000_000_000;
    receiver.stamped.looked_ns = now_ns() - LOOK_NS - 1;
    let before = now_ns();
    far.write_all(HEAD.as_bytes()).unwrap();
    receiver.follow(fd, before, 1 << 20, false);
    assert!(receiver.wait(soon(), true).unwrap().is_empty());
    assert!(receiver.stamped.since_ns > before);
    assert!(receiver.stamped.offset_ns.abs_diff(offset().0) < STEP_NS);
}

#[test]
fn what_is_no_epoll_is_refused() {
    assert!(Receiver::new(-1).is_err());
}

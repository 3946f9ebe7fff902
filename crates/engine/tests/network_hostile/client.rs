//! A client of the network server that is honest up to a state of its test.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use hwdyno_engine::parts::Server;
use serde_json::Value;

/// Where a client is when it turns hostile: everything before it was as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum State {
    Cookie,
    Parameters,
    Streams,
    Running,
    Results,
    Goodbye,
}

pub const STATES: [State; 6] =
    [State::Cookie, State::Parameters, State::Streams, State::Running, State::Results, State::Goodbye];

/// Which test the client requests.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    pub parameters: &'static str,
    pub udp: bool,
    pub echo: bool,
}

pub const KINDS: [Kind; 5] = [
    Kind { name: "tcp up", parameters: r#"{"tcp":true,"parallel":1,"len":1000,"time":5}"#, udp: false, echo: false },
    Kind {
        name: "tcp down",
        parameters: r#"{"tcp":true,"parallel":1,"len":1000,"time":5,"reverse":true}"#,
        udp: false,
        echo: false,
    },
    Kind { name: "udp up", parameters: r#"{"udp":true,"parallel":1,"len":1000,"time":5}"#, udp: true, echo: false },
    Kind {
        name: "udp down",
        parameters: r#"{"udp":true,"parallel":1,"len":1000,"time":5,"reverse":true,"bandwidth":1000000}"#,
        udp: true,
        echo: false,
    },
    Kind {
        name: "echo",
        parameters: r#"{"tcp":true,"parallel":0,"len":1000,"time":5,"hwdyno":{"echo":{"udp":true,"message":64}}}"#,
        udp: false,
        echo: true,
    },
];

/// A client of a test, as far as it came.
pub struct Client {
    pub control: TcpStream,
    pub streams: Vec<TcpStream>,
    pub datagrams: Option<UdpSocket>,
}

pub fn framed(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(text);
    bytes
}

impl Client {
    /// Goes through a test honestly up to `state`; a server that is still busy with what was before has its time.
    pub fn reach(server: &Server, kind: Kind, state: State, number: u32) -> Self {
        let mut cookie = [b'b'; 37];
        cookie[..8].copy_from_slice(format!("{number:08}").as_bytes());
        cookie[36] = 0;
        let until = Instant::now() + Duration::from_secs(9);
        let mut client = loop {
            let control = TcpStream::connect(server.address()).unwrap();
            control.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
            control.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut client = Self { control, streams: Vec::new(), datagrams: None };
            if state == State::Cookie {
                return client;
            }
            client.control.write_all(&cookie).unwrap();
            let mut answer = [0];
            // A connection over the limit of those that wait is closed at once.
            if client.control.read_exact(&mut answer).is_ok() && answer == [9] {
                break client;
            }
            assert!(Instant::now() < until, "tests outlive their clients: {:?}", server.served());
            std::thread::sleep(Duration::from_millis(2));
        };
        if state > State::Parameters {
            client.control.write_all(&framed(kind.parameters.as_bytes())).unwrap();
            client.expect(&[10], kind, state);
        }
        if kind.echo && state > State::Parameters {
            let mut length = [0; 4];
            client.control.read_exact(&mut length).unwrap();
            let mut text = vec![0; u32::from_be_bytes(length) as usize];
            client.control.read_exact(&mut text).unwrap();
            let port = serde_json::from_slice::<Value>(&text).unwrap()["port"].as_u64().unwrap() as u16;
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(("127.0.0.1", port)).unwrap();
            client.datagrams = Some(socket);
        }
        if state > State::Streams {
            if kind.udp {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
                socket.connect(server.address()).unwrap();
                socket.send(b"9876").unwrap();
                socket.recv(&mut [0; 16]).unwrap();
                client.datagrams = Some(socket);
            } else if !kind.echo {
                let mut stream = TcpStream::connect(server.address()).unwrap();
                stream.write_all(&cookie).unwrap();
                stream.write_all(&[7; 3000]).unwrap();
                client.streams.push(stream);
            }
            client.expect(&[1, 2], kind, state);
        }
        if state > State::Running {
            client.control.write_all(&[4]).unwrap();
            client.expect(&[13], kind, state);
        }
        if state > State::Results {
            client.control.write_all(&framed(br#"{"cpu_util_total":1,"streams":[]}"#)).unwrap();
            let mut length = [0; 4];
            client.control.read_exact(&mut length).unwrap();
            let mut text = vec![0; u32::from_be_bytes(length) as usize];
            client.control.read_exact(&mut text).unwrap();
            client.expect(&[14], kind, state);
        }
        client
    }

    pub fn expect(&mut self, states: &[u8], kind: Kind, state: State) {
        let mut came = vec![0; states.len()];
        self.control.read_exact(&mut came).unwrap_or_else(|error| panic!("{} to {state:?}: {error}", kind.name));
        assert_eq!(came, states, "{} on the way to {state:?}", kind.name);
    }
}

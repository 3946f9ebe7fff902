//! A device that computes beside the processor, by whichever driver it is reached: `OpenCL`'s or CUDA's. What is made
//! on it is released by itself, in any order that Rust allows.

use std::marker::PhantomData;
use std::ptr::null_mut;

use super::cublas::Product;
use super::cuda;
use super::driver::{DeviceAddress, Driver, Handle, Value, Way};
use super::opencl::{self, Fact};
use crate::contract::error::STOPPED;
use crate::contract::kernel::Stop;

/// A device by its driver.
#[derive(Clone)]
pub enum Device {
    /// A device driven through `OpenCL`.
    OpenCl(opencl::Device),
    /// A device driven through CUDA.
    Cuda(cuda::Device),
}

impl Device {
    /// A number that it states; 0 where it states none.
    #[must_use]
    pub fn number(&self, fact: Fact) -> u64 {
        match self {
            Self::OpenCl(device) => device.number(fact),
            Self::Cuda(device) => device.number(fact),
        }
    }

    /// A text that it states; none where it states none.
    #[must_use]
    pub fn text(&self, fact: Fact) -> Option<String> {
        match self {
            Self::OpenCl(device) => device.text(fact),
            Self::Cuda(device) => device.text(fact),
        }
    }

    /// `cpu`, `gpu` or `accelerator`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::OpenCl(device) => device.kind(),
            Self::Cuda(_) => "gpu",
        }
    }

    /// The interface that it is reached by.
    #[must_use]
    pub fn interface(&self) -> &'static str {
        match self {
            Self::OpenCl(_) => "OpenCL",
            Self::Cuda(_) => "CUDA",
        }
    }

    /// The precisions of its arithmetic.
    #[must_use]
    pub fn precisions(&self) -> Vec<&'static str> {
        match self {
            Self::OpenCl(device) => device.precisions(),
            Self::Cuda(device) => device.precisions(),
        }
    }

    /// Its address on the PCI bus, where its driver states one.
    #[must_use]
    pub fn bus(&self) -> Option<String> {
        match self {
            Self::OpenCl(_) => None,
            Self::Cuda(device) => device.bus(),
        }
    }

    /// Opens it for work that ends early once `stop` is set.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn open(&self, stop: &Stop) -> Result<Session, String> {
        Ok(Session {
            stop: stop.clone(),
            driver: match self {
                Self::OpenCl(device) => Box::new(device.open()?),
                Self::Cuda(device) => Box::new(device.open()?),
            },
        })
    }
}

/// A device that is open for work.
pub struct Session {
    stop: Stop,
    driver: Box<dyn Driver>,
}

impl Session {
    /// An order in which commands run one after the other.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn queue(&self) -> Result<Queue<'_>, String> {
        Ok(Queue { handle: self.driver.queue()?, driver: &*self.driver })
    }

    /// Memory of the device.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer<'_>, String> {
        Ok(Buffer { handle: self.driver.buffer(bytes)?, driver: &*self.driver, bytes })
    }

    /// Compiles `source`, and gives the function `name` in it. A compiler may take seconds, and nothing cuts it short.
    ///
    /// # Errors
    /// The compiler's own words; [`STOPPED`] where the run is to end.
    pub fn kernel(&self, source: &str, name: &str) -> Result<Kernel<'_>, String> {
        if self.stop.is_set() {
            return Err(STOPPED.into());
        }
        Ok(Kernel { handles: self.driver.kernel(source, name)?, driver: &*self.driver })
    }
}

/// Memory of a device.
pub struct Buffer<'a> {
    driver: &'a dyn Driver,
    handle: Handle,
    bytes: usize,
}

impl Buffer<'_> {
    /// Its address for libraries beside the driver, whose context is this thread's from now on; none where the driver
    /// has no such addresses.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn address(&self) -> Result<Option<DeviceAddress<'_>>, String> {
        Ok(self.driver.address(self.handle)?.map(|address| DeviceAddress {
            address,
            bytes: self.bytes,
            of: PhantomData,
        }))
    }
}

impl Buffer<'_> {
    fn place(&self) -> Result<DeviceAddress<'_>, String> {
        self.address()?.ok_or_else(|| "no library works beside this driver".into())
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.driver.release_buffer(self.handle);
    }
}

/// A compiled function, which stays on its thread, since its arguments are set one by one.
pub struct Kernel<'a> {
    driver: &'a dyn Driver,
    handles: (Handle, Handle),
}

// SAFETY: a driver's handles of memory and queues may be used from any thread.
unsafe impl Send for Buffer<'_> {}
// SAFETY: as above.
unsafe impl Sync for Queue<'_> {}

/// What a kernel is given.
pub enum Argument<'a, 'b> {
    /// A buffer.
    Buffer(&'a Buffer<'b>),
    /// A 32-bit whole number.
    Number(u32),
}

impl Kernel<'_> {
    /// Sets all arguments in their order.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn set(&self, arguments: &[Argument<'_, '_>]) -> Result<(), String> {
        arguments.iter().enumerate().try_for_each(|(at, argument)| self.set_at(at, argument))
    }

    /// Sets one argument.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn set_at(&self, at: usize, argument: &Argument<'_, '_>) -> Result<(), String> {
        let value = match argument {
            Argument::Buffer(buffer) => Value::Buffer(buffer.handle),
            Argument::Number(number) => Value::Number(*number),
        };
        self.driver.set(self.handles, at, value)
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        self.driver.release_kernel(self.handles);
    }
}

/// Commands in their order.
pub struct Queue<'a> {
    driver: &'a dyn Driver,
    handle: Handle,
}

/// A command that was given to a queue.
pub struct Event<'a> {
    driver: &'a dyn Driver,
    handle: Handle,
}

/// A copy to the device that was begun; it keeps the host's memory until it has ended, and is waited for when dropped.
pub struct Write<'a, 'b> {
    event: Event<'a>,
    from: Option<&'b mut [u8]>,
}

impl<'b> Write<'_, 'b> {
    /// Waits until it has ended: the host's memory, and how long it took on the device, ns, where that keeps time.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn ended(mut self) -> Result<(&'b mut [u8], Option<u64>), String> {
        self.event.wait()?;
        let ns = self.event.ns();
        Ok((self.from.take().unwrap_or_default(), ns))
    }
}

impl Drop for Write<'_, '_> {
    fn drop(&mut self) {
        if self.from.is_some() {
            // What it copied from may be gone after this.
            let _ = self.event.wait();
        }
    }
}

/// Host memory that the driver mapped, for as long as its queue.
pub struct Mapped<'a> {
    queue: &'a Queue<'a>,
    handle: Handle,
    address: *mut u8,
    bytes: usize,
}

impl<'a> Queue<'a> {
    /// Runs a kernel over `items`, in groups of `group` if it is not 0.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn launch(&self, kernel: &Kernel<'_>, items: usize, group: usize) -> Result<Event<'a>, String> {
        let handle = self.driver.launch(self.handle, kernel.handles, (items, group), true)?;
        Ok(Event { driver: self.driver, handle })
    }

    /// Multiplies two matrices of a product into the third; `room` is what the library may use besides.
    ///
    /// # Errors
    /// What the library or the driver refused, and that it is none of CUDA's devices.
    pub fn multiply(
        &self,
        product: &Product,
        factors: [&Buffer<'_>; 2],
        result: &Buffer<'_>,
        room: &Buffer<'_>,
    ) -> Result<Event<'a>, String> {
        let [first, second] = factors;
        let (first, second, result, room) = (first.place()?, second.place()?, result.place()?, room.place()?);
        let handle =
            self.driver.timed(self.handle, &mut |stream| product.begin([first, second], result, room, stream))?;
        Ok(Event { driver: self.driver, handle })
    }

    /// Runs a kernel of `items` in groups of one, and waits until it has ended; the device keeps no time of it.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn run(&self, kernel: &Kernel<'_>, items: usize) -> Result<(), String> {
        self.driver.launch(self.handle, kernel.handles, (items, 1), false)?;
        self.driver.finish(self.handle)
    }

    fn copied(&self, way: Way) -> Result<Option<u64>, String> {
        let event = Event { handle: self.driver.copy(self.handle, way)?, driver: self.driver };
        event.wait()?;
        Ok(event.ns())
    }

    /// Copies all of `from` to the start of `to`; gives the time on the device, ns, where it keeps it.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn write(&self, to: &Buffer<'_>, from: &[u8]) -> Result<Option<u64>, String> {
        assert!(from.len() <= to.bytes);
        self.copied(Way::ToDevice(to.handle, from.as_ptr(), from.len()))
    }

    /// Begins to copy all of `from` to the start of `to`, which goes on while the caller does something else.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn begin_write<'b>(&self, to: &Buffer<'a>, from: &'b mut [u8]) -> Result<Write<'a, 'b>, String> {
        assert!(from.len() <= to.bytes);
        let way = Way::ToDevice(to.handle, from.as_ptr(), from.len());
        let event = Event { handle: self.driver.copy(self.handle, way)?, driver: self.driver };
        let begun = Write { event, from: Some(from) };
        self.driver.flush(self.handle)?;
        Ok(begun)
    }

    /// Copies the start of `from` over all of `to`; gives the time on the device, ns, where it keeps it.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn read(&self, from: &Buffer<'_>, to: &mut [u8]) -> Result<Option<u64>, String> {
        assert!(to.len() <= from.bytes);
        self.copied(Way::ToHost(to.as_mut_ptr(), from.handle, to.len()))
    }

    /// Copies all of `from` to the start of `to`, within the device; gives its time there, ns, where it keeps it.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn copy(&self, to: &Buffer<'_>, from: &Buffer<'_>) -> Result<Option<u64>, String> {
        assert!(from.bytes <= to.bytes);
        self.copied(Way::Within(to.handle, from.handle, from.bytes))
    }

    /// Memory of the host that the device reaches by itself.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn pinned(&'a self, bytes: usize) -> Result<Mapped<'a>, String> {
        let (handle, address) = self.driver.pinned(self.handle, bytes)?;
        Ok(Mapped { queue: self, handle, address, bytes })
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // Commands that run are waited for first, so that no memory of theirs goes before them.
        let _ = self.driver.finish(self.handle);
        self.driver.release_queue(self.handle);
    }
}

impl Event<'_> {
    /// Waits until the command has ended.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn wait(&self) -> Result<(), String> {
        self.driver.wait(self.handle)
    }

    /// How long it took on the device, ns, after it was waited for; none where the device keeps no time.
    #[must_use]
    pub fn ns(&self) -> Option<u64> {
        self.driver.ns(self.handle)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        self.driver.release_event(self.handle);
    }
}

impl Mapped<'_> {
    /// The memory.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the driver mapped that many bytes, and keeps them until they are unmapped in `drop`.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        self.queue.driver.release_pinned(self.queue.handle, self.handle, self.address);
        self.address = null_mut();
    }
}

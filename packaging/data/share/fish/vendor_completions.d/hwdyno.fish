# fish completion of hwdyno
# Printed by: hwdyno completion fish
complete -c hwdyno -f -n __fish_use_subcommand -a run -d 'characterize this machine and write a report (the main job)'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l only -d 'resources or experiments, e.g. storage or storage.iodepth' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l plan-for -d 'print a plan for hwdyno-engine on the host of this survey' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l path -d 'directory or device to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from run' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a machine -d 'show this machine and the ceilings of its parts'
complete -c hwdyno -n '__fish_seen_subcommand_from machine' -l json -d 'print the Machine and its ceilings as JSON'
complete -c hwdyno -n '__fish_seen_subcommand_from machine' -l path -d 'directory whose storage is described' -r
complete -c hwdyno -n '__fish_seen_subcommand_from machine' -l root -d 'read a recorded /proc and /sys instead of this machine’s' -r
complete -c hwdyno -n '__fish_seen_subcommand_from machine' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from machine' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a storage -d 'measure storage: --rw --bs --iodepth --numjobs …'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -f -a 'grid iodepth blocksize mix jobs rate scaling shared_file patterns threads metadata names job snia check'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l after-power-cut -d 'with `check JOURNAL'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l plan-for -d 'print a plan for hwdyno-engine on the host of this survey' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rw -d 'direction and order' -x -a 'read write randread randwrite rw randrw trim randtrim trimwrite randtrimwrite'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rwmixread -d 'share of reads in a mix' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l bs -d 'block size' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l iodepth -d 'queue depth per job' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l iodepth-batch-submit -d 'operations per io_uring submission' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l iodepth-batch-complete-min -d 'completions per wait' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l numjobs -d 'jobs: threads, each with its own queue' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l ioengine -d 'I/O engine' -x -a 'io_uring libaio psync mmap stdio null'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l hipri -d 'poll for completions instead of interrupts' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l direct -d 'bypass the page cache' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l size -d 'size of the region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l offset -d 'start of the region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l runtime -d 'length of the timed region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l time-based -d 'repeat passes for the whole runtime instead of ending after one' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l ramp-time -d 'warm-up time before counting' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l startdelay -d 'delay before the first operation' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l interval-s -d 'length of a sampling interval' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l share -d 'jobs split the region, or each covers all of it' -x -a 'partition whole'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l log -d 'log each job’s throughput and latency by interval' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l clients -d 'ranks or hosts of this start that take part, the first ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l shared-file -d 'all hosts use one file, each a region of its own, instead of a file each' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l load -d 'axis of the curves' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate -d 'start this many operations/s, all jobs together, without waiting for completions' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-bytes -d 'the same in B/s' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-process -d 'spacing of the starts of a rate: even, or random' -x -a 'linear poisson'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l thinktime -d 'pause after every thinktime_blocks operations' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l thinktime-blocks -d 'operations before each thinktime' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l thinktime-iotime -d 'time of operations before each thinktime' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l thinktime-spin -d 'part of each thinktime that spins instead of sleeping' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-iops-read -d 'start this many reads/s, all jobs together, instead of rate' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-iops-write -d 'the same for writes/s' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-read -d 'the same for B/s read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-write -d 'the same for B/s written' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-iops-min-read -d 'end the run as failed below this many reads/s, all jobs together' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-iops-min-write -d 'the same for writes/s' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-min-read -d 'the same for B/s read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-min-write -d 'the same for B/s written' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-cycle -d 'interval between checks of these minimum rates, the first after 2 s' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rate-ignore-thinktime -d 'do not catch up on a rate after thinktime' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l flow -d 'each thread’s share of the operations of its flow' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l flow-id -d 'flow of this job, among the jobs that run in parallel' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l flow-sleep -d 'sleep of a thread that is ahead of its share' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l random-distribution -d 'distribution of random blocks: random, zipf:N, pareto:N, normal:N, zoned:A/B:C/D' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l pattern -d 'direction of sequential order' -x -a 'forward backward write rewrite read reread randread randwrite backward_read record_rewrite stride fwrite frewrite fread freread randrw'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l stride -d 'distance between sequential operations' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l zonesize -d 'bytes transferred in one zone before the next' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l zonerange -d 'size of a zone' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l zoneskip -d 'gap between zones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l sequential-read -d 'share of random reads that continue where the last one ended' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l sequential-write -d 'the same for writes' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l random-every -d 'in random order, only every n-th operation is random' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l rw-sequencer -d 'the operations between: sequential, or a repeat of the last' -x -a 'sequential identical'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l positions-apart -d 'sequential reads and writes have separate positions' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l gap -d 'gap between sequential operations, backward if negative' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l norandommap -d 'random order may repeat a block in a pass and skip others' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l write-iolog -d 'record the operations in this file, as fio’s iolog version 3' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l read-iolog -d 'replay the operations of this iolog, version 2 or 3' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l replay-skip -d 'operations of the iolog to skip: read, write, sync, trim' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l replay-time-scale -d 'factor on the times between its operations' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l bssplit -d 'block sizes with their shares in percent, such as 4k/50:64k/50' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l bssplit-write -d 'the same for writes' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l blockalign -d 'alignment of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l blockalign-write -d 'the same for writes' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l bs-unaligned -d 'block sizes of any number of bytes between the smallest and largest of bssplit' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l bs-is-seq-rand -d 'bssplit applies to sequential operations, bssplit_write to random ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l mem -d 'buffer pages: a large direct block is one segment in a huge page, hundreds in small pages as with fio’s malloc' -x -a 'huge small'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l end-fsync -d 'sync written data at the end, inside the timed region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l drop-cache -d 'drop the region from the page cache first' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l fsync -d 'sync the file after this many writes of a job' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l fdatasync -d 'sync the file’s data after this many writes' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l verify -d 'verify blocks: written ones are read back after the timed region, read ones are checked' -x -a 'none crc32c'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l verify-seed -d 'identifies the blocks of this run' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l generation -d 'number of the first write of a block' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l journal -d 'with verify: new file that records acknowledged and synced writes for `storage check`, even after a kill' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l buffer-compress-percentage -d 'share of zeroes in written data' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l buffer-compress-chunk -d 'chunk size of these zeroes' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l dedupe-percentage -d 'share of writes that repeat the previous block' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l buffer-pattern -d 'pattern to write, as bytes of two hexadecimal digits each' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l sync -d 'writes return when the data' -x -a 'none sync dsync'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l pre-read -d 'read the region into the page cache first' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l io-size -d 'bytes per pass, all jobs together' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l loops -d 'passes, unless time ends the run' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l steadystate -d 'end when the rate is steady: iops:2%' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l steadystate-duration -d 'length of the steady window' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l steadystate-ramp-time -d 'time before the first window' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l steadystate-interval -d 'sampling interval of the window' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l number-ios -d 'most operations of one pass, all jobs together' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l latency-target -d 'search for the largest depth, up to iodepth, within this latency' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l latency-window -d 'time at each depth' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l latency-percentile -d 'share of operations that must meet latency_target' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l latency-run -d 'continue searching until the run ends' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l file-service-type -d 'order of files: roundrobin, sequential, random, zipf:N, pareto:N, normal:N' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l openfiles -d 'files of a job in use at a time' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l operation -d 'timed operation' -x -a 'create stat open readdir rename unlink'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l nrfiles -d 'files per thread' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l filesize -d 'size of each file' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l depth -d 'levels of directories, four per level' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l directories -d 'separate directories for each thread, or shared ones' -x -a 'unique shared'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l destroy -d 'overwrite this device, the same as --path: all its data is lost' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l serial -d 'its serial number from the label' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l ignore -d 'run the job file without this key' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l keys -d 'list the keys of job files and how each is handled'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l fio-dir -d 'also write fio’s JSON and logs' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l output-format -d 'format of stdout' -x -a 'report json fio-json fio-json+'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l path -d 'directory or device to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from storage' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a memory -d 'measure memory bandwidth and latency'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -f -a 'grid threads stream levels latency latency_matrix bandwidth_matrix caches loaded mix block pages cores scaling'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l plan-for -d 'print a plan for hwdyno-engine on the host of this survey' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l operation -d 'operation, as STREAM names them' -x -a 'read write nt_write copy scale add triad nt_copy nt_scale nt_add nt_triad mix cas clean modified'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l mix -d 'lines read : lines written on the bus, for operation mix' -x -a '1:0 4:1 3:1 2:1 3:2 1:1 0:1 1:1-nt 2:1-nt 3:1-nt 0:1-nt'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l pattern -d 'order of accesses' -x -a 'sequential random'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l stride -d 'distance between blocks' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l block -d 'contiguous bytes per access: 8, 16, 32 or a multiple of 64' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l isa -d 'instruction set' -x -a 'auto scalar sse avx2 avx512 neon sve'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l working-set -d 'size of all arrays of one thread' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l threads -d 'number of threads, each with its own memory' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l runtime -d 'length of the timed region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l interval-s -d 'length of a sampling interval' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l pages -d 'page size: the base pages of the system, 2 MiB' -x -a '4k 2m 1g'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l node -d 'NUMA node of the memory' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l cpu-node -d 'NUMA node of the CPUs' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l locality -d 'order of accesses: random over the whole set, random within neighbourhoods, or sequential' -x -a 'random local sequential'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l local-size -d 'size of a neighbourhood, for locality local' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l batch -d 'loads per timing' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l delay -d 'pause of a traffic thread after every 128 bytes, in cycles' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l chase-set -d 'size of the memory that is read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l lines -d 'cache lines per handover, for clean and modified' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l clients -d 'ranks or hosts of this start that take part, the first ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l load -d 'axis of the curves' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l path -d 'directory or device to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from memory' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a compute -d 'measure CPU arithmetic, and LINPACK'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -f -a 'grid threads clock linpack'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l plan-for -d 'print a plan for hwdyno-engine on the host of this survey' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l operation -d 'operation' -x -a 'fma add multiply dot lu gemm'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l precision -d 'data type of the operands' -x -a 'double single half bfloat16 int8 int16 int32 int64'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l isa -d 'instruction set' -x -a 'auto scalar sse avx2 avx512 amx neon sve'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l operands -d 'operand values' -x -a 'nonzero zero'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l threads -d 'number of threads' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l runtime -d 'length of the timed region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l interval-s -d 'length of a sampling interval' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l n -d 'equations, or rows of the matrices' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l blas -d 'the library that does it' -x -a 'auto mkl openblas blis accelerate'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l clients -d 'ranks or hosts of this start that take part, the first ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l load -d 'axis of the curves' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l path -d 'directory or device to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from compute' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a gpu -d 'measure a GPU: arithmetic, memory, copies, launches'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -f -a 'peaks bandwidth transfer load matrix roofline launch latency'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l plan-for -d 'print a plan for hwdyno-engine on the host of this survey' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l precision -d 'data type of the operands' -x -a 'single double half bfloat16 int32 int8 bf16 fp16 tf32 fp64 fp8'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l width -d 'lanes of a vector: 1, 2, 4, 8 or 16' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l chains -d 'independent chains a work item' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l on -d 'device to measure: gpu, gpu1 …' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l runtime -d 'length of the timed region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l interval-s -d 'length of a sampling interval' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l operation -d 'loop: copy, mul, add, triad or dot' -x -a 'copy mul add triad dot host-to-device device-to-host both-ways device-to-device'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l array -d 'size of each array' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l intensity -d 'operations for each byte that is read or written' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l memory -d 'the host’s memory' -x -a 'pinned pageable'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l block -d 'bytes of one copy' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l working-set -d 'size of the memory that is read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l size -d 'bytes of the file that are loaded' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l part -d 'what is timed: reading and copying at once, or one of them alone' -x -a 'whole read copy'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l access -d 'how the file is read: past the page cache' -x -a 'direct read mmap gds'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l buffers -d 'pinned buffers' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l readers -d 'threads that read, each a block' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l n -d 'rows and columns of the matrices, a multiple of 16' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l library -d 'library that multiplies' -x -a 'cublaslt cublas'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l clients -d 'ranks or hosts of this start that take part, the first ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l load -d 'axis of the curves' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l path -d 'directory or device to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from gpu' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a network -d 'measure the network, or serve a measurement'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -f -a 'streams block copies congestion udp lossless latency waiting ping connections loaded_latency pairs pairs_latency bisection all_to_all server'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l output-format -d 'print the last point' -x -a 'iperf3-json'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l protocol -d 'protocol of the streams' -x -a 'tcp udp'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l streams -d 'streams per direction' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l block -d 'bytes per call, or per datagram with UDP' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l direction -d 'from here' -x -a 'up down both'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l rate -d 'rate of each stream' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l burst -d 'blocks sent in a burst within the rate' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l window -d 'socket buffers at both ends' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l congestion -d 'TCP congestion control' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l nodelay -d 'send small blocks immediately' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l mss -d 'TCP maximum segment size' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l zero-copy -d 'the sender copies nothing' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l skip-rx-copy -d 'the receiver copies nothing' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l handing -d 'datagrams: many per call, one per call, or split by the kernel' -x -a 'batched plain segmented'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l search -d 'UDP: find the highest rate without loss, then measure at it' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l bytes -d 'end after this many bytes instead of runtime' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l blocks -d 'end after this many blocks instead of runtime' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l server -d 'address of the server' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l port -d 'port of the server' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l runtime -d 'length of the timed region' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l ramp-time -d 'warm-up time before counting' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l exchange -d 'one connection for all round trips, or one for each' -x -a 'echo connect'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l message -d 'message size, each way' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l in-flight -d 'round trips in flight' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l waiting -d 'sleep until a message arrives, as most programs do, or spin for 50 µs first' -x -a 'sleep spin'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l load-streams -d 'TCP streams that load the path meanwhile' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l clients -d 'ranks or hosts of this start that take part, the first ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l between -d 'which host sends to which: 0-3 is host 0 to host 3 alone, +2 each host to the second one after it' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l load -d 'axis of the curves' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l bind -d 'address to listen on' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l once -d 'exit after one test'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l parallel-clients -d 'serve several clients at once'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l path -d 'directory or device to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from network' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a training -d 'measure storage for AI training'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l workload -d 'bert, cosmoflow, dlrm, flux, resnet50, retinanet, unet3d, or a DLIO YAML file' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l accelerator -d 'v100, a100, h100, b200 …' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l samples -d 'samples of the data set' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l keep -d 'keep generated data for the next run'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l generate -d 'generate the data, keep it, and measure nothing'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l no-client -d 'skip the loader alone'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l no-plain -d 'skip the comparison with plain reads'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l checkpoint -d 'llama3-8b, llama3-70b, llama3-405b or llama3-1t' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l scale -d 'share of its size to use' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l ranks -d 'ranks that save in parallel' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l summary -d 'write DLIO’s summary.json of each point to DIR' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l accelerators -d 'emulated accelerators, one rank each' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l batch-size -d 'samples per batch' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l read-threads -d 'reader threads per accelerator' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l prefetch -d 'batches that each reader prefetches' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l epochs -d 'number of passes over the data set' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l steps -d 'most steps per epoch' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l compute -d 'compute time of an accelerator per batch' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l runtime -d 'time limit, at the end of a step' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l order -d 'files in sorted order, or a new random order each epoch' -x -a 'dlio shuffled'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l parse -d 'verify each format’s checksums, or only read' -x -a 'full raw'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l transfer-size -d 'size of one read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l read-columns -d 'parquet: number of columns read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l direct -d 'bypass the page cache' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l cache -d 'page cache: leave as it is, drop the files first, or fill it' -x -a 'keep drop warm'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l barrier -d 'synchronise accelerators after each step' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l clients -d 'ranks or hosts of this start that take part, the first ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l load -d 'axis of the curves' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l path -d 'storage to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from training' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a inference -d 'measure a model’s start from storage, its decoding, KV cache and vector search'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l model -d 'tiny, 32m, 62m, 246m, 850m, resnet50, encoder, or a file: .safetensors, .onnx, .gguf' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l keep -d 'keep what was made for the next run'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l generate -d 'make it, keep it, and measure nothing'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l cold -d 'time to ready by these loaders: raw, direct, read, mmap, safetensors, onnxruntime, mapped, llama.cpp' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l decode -d 'tokens/s of these engines: onnxruntime, llama.cpp' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l images -d 'images/s of ResNet-50, fed from so many JPEG files' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l kv-cache -d 'the model whose KV cache is stored: llama3.1-8b, llama3.1-70b …' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l scale -d 'share of the contexts’ tokens to use' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l restore -d 'restore or recompute in these engines: onnxruntime, llama.cpp' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l server -d 'drive this OpenAI-compatible server' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l serve -d 'serve this GGUF file by llama.cpp on loopback, and drive that server' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l slots -d 'requests that it answers at once' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l server-threads -d 'its threads' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l context -d 'tokens of context in each slot' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l in-process -d 'users, a rate or a trace on a made model in: onnxruntime' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l vector-search -d 'build and search a diskann, hnsw or ivf index of --vectors' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l cache -d 'the page cache before' -x -a 'cold warm'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l threads -d 'reading threads of raw, direct and read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l chunk -d 'bytes of one read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l clients -d 'ranks or hosts of this start that take part, the first ones' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l load -d 'axis of the curves' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l prompt -d 'tokens before the first decoded one' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l prepack -d 'ONNX Runtime reorders weights when it loads them' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l runtime -d 'decode for this long' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l users -d 'concurrent users, each waiting for an answer' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l user-kind -d 'kind of users: tokens per turn and think time' -x -a 'mixed chatbot coding document'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l turns -d 'most turns of a conversation' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l decode-batch -d 'tokens generated per read of the turn’s entry' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l token-time -d 'compute time per generated token' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l think -d 'factor on the users’ think time' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l memory -d 'size of the memory tier above the storage' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l capacity -d 'size of the storage tier' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l transfer-size -d 'size of one read or write' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l direct -d 'bypass the page cache' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l drop-cache -d 'without direct: drop an entry from the page cache before reading it' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l fsync -d 'sync at the end of a write' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l verify -d 'verify every block read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l way -d 'recompute: prefill again' -x -a 'recompute restore'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l tokens -d 'tokens of the context' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l endpoint -d 'completions: token ids, of exact lengths' -x -a 'completions chat'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l served-model -d 'name at the server' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l concurrency -d 'users, each with one request at a time' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l rate -d 'requests/s, however many are unanswered' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l arrivals -d 'how the requests of a rate come' -x -a 'poisson gamma constant trace'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l burstiness -d 'shape of gamma arrivals: below 1 bursts, 1 Poisson, above 1 more even' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l think-time -d 'a user’s pause after an answer' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l trace -d 'file of --arrivals trace: Mooncake, BurstGPT or Azure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l input-tokens -d 'of a prompt: 128, uniform:64:256, normal:128:32, lognormal:128:0.5, exponential:128' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l output-tokens -d 'of an answer, likewise' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l text-prompts -d 'words instead of token ids' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l ignore-eos -d 'answers of full length: go on past an end token' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l shared-prefix -d 'tokens that all prompts begin with, within their length' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l reuse-prompts -d 'allow the server’s prefix cache' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l ttft-target -d 'goodput: time to first token' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l tpot-target -d 'goodput: time a token' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l connections -d 'at most so many at once' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l timeout -d 'for a whole answer' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l allow-remote -d 'load a server on another host' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l requests -d 'users send at least so many in all' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l batch -d 'requests answered in one step' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l vectors -d 'number of vectors' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l dim -d 'dimensions of a vector, 4 bytes each' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l distribution -d 'distribution of the vectors: low-dimensional as embeddings are, or uniform' -x -a 'clustered uniform'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l degree -d 'diskann, hnsw: most neighbours of a vector' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l build-list -d 'diskann, hnsw: candidates kept during the build' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l lists -d 'ivf: lists' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l queries -d 'number of queries with exact answers' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l search-list -d 'diskann, hnsw: candidates per query' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l beam -d 'reads in flight per query' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l probes -d 'ivf: lists read per query' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l k -d 'neighbours per query' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l ioengine -d 'I/O engine' -x -a 'io_uring psync'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l path -d 'storage to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from inference' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a together -d 'measure what resources cost each other when they run together'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l resources -d 'resources that run beside each other' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l at -d 'loads at which they run, e.g. storage=32,memory=2' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l path -d 'directory or device to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from together' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a slurm -d 'write a batch script that measures on the nodes of a Slurm job'
complete -c hwdyno -n '__fish_seen_subcommand_from slurm' -f -a 'script'
complete -c hwdyno -n '__fish_seen_subcommand_from slurm' -l nodes -d 'nodes of the job' -r
complete -c hwdyno -n '__fish_seen_subcommand_from slurm' -l ranks-per-node -d 'ranks on each of them' -r
complete -c hwdyno -n '__fish_seen_subcommand_from slurm' -l partition -d 'partition of the job' -r
complete -c hwdyno -n '__fish_seen_subcommand_from slurm' -l time -d 'limit of the job' -r
complete -c hwdyno -n '__fish_seen_subcommand_from slurm' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a kubernetes -d 'measure in pods of a cluster: manifests, a run, its clean-up'
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -f -a 'manifest run clean'
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l storage -d 'claim:NAME, class:NAME, ephemeral:CLASS, csi:DRIVER;KEY=VALUE or emptyDir' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l volume-size -d 'size of volumes that are made' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l access -d 'access mode of claims' -x -a 'RWO RWX RWOP'
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l mode -d 'filesystem or raw device' -x -a 'filesystem block'
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l form -d 'job, indexed or mpi' -x -a 'job indexed mpi'
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l clients -d 'pods that measure together, as ranks' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l spread -d 'each pod on a node of its own'
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l on -d 'nodes with this label, such as a host’s name' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l cpu -d 'processors of a pod, requested and at most' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l memory -d 'memory of a pod, requested and at most' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l image -d 'container image with hwdyno' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l name -d 'name of all that is made' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l time -d 'end the pods after this time' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l namespace -d 'namespace' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l keep -d 'run: leave everything in the cluster'
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from kubernetes' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a study -d 'reproduce a published study on this machine'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -f -a 'cloud-vm-suite jetson-sequential-read kubernetes-ai-storage laptop-memory-and-flash sata-ssd-queue'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l stream -d 'STREAM to compare with: its program, or its source to build' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l only -d 'only these resources of the study, e.g. memory,cpu,disk' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l on -d 'device of the GPU’s part: gpu, cuda, opencl, or cpu by OpenCL' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l server -d 'address of a second node that runs `hwdyno network server`' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l samples -d 'samples of the data sets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l no-grid -d 'skip fio’s grid of each storage'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l no-inference -d 'skip the KV cache and the vector index'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l manifests -d 'print Kubernetes manifests instead of measuring: NAME=CLASS,NAME=emptyDir' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l image -d 'container image with hwdyno' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l summary -d 'write DLIO’s summary.json of each point to DIR' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l merge -d 'one table of several stored Runs or documents' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l profile -d 'quick, standard or full' -x -a 'quick standard full'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l path -d 'storage to measure' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l peers -d 'also run the reference tools'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l seed -d 'seed of the order of points and of random offsets' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l budget -d 'finish within this time, e.g. 10m' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l dry-run -d 'list the points with their time and bytes'
complete -c hwdyno -n '__fish_seen_subcommand_from study' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a report -d 'show a run again; write its page, images and tables'
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l html -d 'write the page: one self-contained file' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l full-data -d 'keep the whole run in the page, however large it gets'
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l png -d 'write every chart as PNG into DIR' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l svg -d 'write every chart as SVG into DIR' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l pdf -d 'write every chart as PDF into DIR' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l overwrite -d 'replace files that hwdyno did not write'
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l csv -d 'print CSV, one line per point, in base units'
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l markdown -d 'print the tables as Markdown'
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l map -d 'what a column is: ’bw=MB/s’, ’delay=lat us’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from report' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a audit -d 'hold any tool’s file or published table against the laws'
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l map -d 'what a column is: ’bw=MB/s’, ’delay=lat us’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l device -d 'the device: its maker’s figures and its link' -r
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l all -d 'also print tables, curves and observations'
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l json -d 'print the audit as a Run document'
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l html -d 'write the page: one self-contained file' -r
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l overwrite -d 'replace a file that hwdyno did not write'
complete -c hwdyno -n '__fish_seen_subcommand_from audit' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a import -d 'store what hwdyno-engine or another tool has measured elsewhere'
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l json -d 'print the Run as JSON instead of the report'
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l verbose -d 'print every table and finding below the scorecard'
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l out -d 'folder of the report' -r
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l overwrite -d 'replace files that hwdyno did not write, but no link'
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l no-page -d 'write no HTML page'
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l quiet -d 'no progress on stderr'
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l fail-under -d 'exit with 1 below this share of a ceiling' -r
complete -c hwdyno -n '__fish_seen_subcommand_from import' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a compare -d 'compare runs, machines, tables, makers’ figures'
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l device -d 'compare with the maker’s figures of this device' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l fail-under -d 'exit with 1 where a proven loss leaves less than this' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l verbose -d 'print every difference and every point'
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l json -d 'print the comparison as JSON'
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l html -d 'write the page: curves over each other, one file' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l junit -d 'write JUnit XML for CI' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l overwrite -d 'replace a file that hwdyno did not write'
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l map -d 'what a column is: ’bw=MB/s’, ’delay=lat us’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l link -d 'the link: ’PCIe 3 x4’, ’SATA 3’, ’USB 3.1 Gen 1’, ’10GbE’' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from compare' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a scaling -d 'throughput, fairness and limit by the number of clients'
complete -c hwdyno -n '__fish_seen_subcommand_from scaling' -l load -d 'loads to project to' -r
complete -c hwdyno -n '__fish_seen_subcommand_from scaling' -l json -d 'print the curves as JSON'
complete -c hwdyno -n '__fish_seen_subcommand_from scaling' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from scaling' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a project -d 'project a run’s curves to loads far past the measured ones'
complete -c hwdyno -n '__fish_seen_subcommand_from project' -l load -d 'loads to project to' -r
complete -c hwdyno -n '__fish_seen_subcommand_from project' -l json -d 'print the projections as JSON'
complete -c hwdyno -n '__fish_seen_subcommand_from project' -l store -d 'folder of the stored Runs' -r
complete -c hwdyno -n '__fish_seen_subcommand_from project' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a history -d 'list the stored runs; since when is what slower'
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l trends -d 'since when is what slower, and what changed then'
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l machine -d 'part of the machine’s name' -r
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l metric -d 'only the figures with this in their name' -r
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l rebuild -d 'rebuild the index from the stored documents'
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l send -d 'send this machine’s runs to the team’s database'
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l json -d 'print the list as JSON'
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l limit -d 'only the newest N' -r
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from history' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a fleet -d 'find the slow machine of many, and what is different about it'
complete -c hwdyno -n '__fish_seen_subcommand_from fleet' -l metric -d 'only the figures with this in their name' -r
complete -c hwdyno -n '__fish_seen_subcommand_from fleet' -l json -d 'print the fleet as JSON'
complete -c hwdyno -n '__fish_seen_subcommand_from fleet' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from fleet' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a serve -d 'show runs, trends, comparisons and the fleet in a browser'
complete -c hwdyno -n '__fish_seen_subcommand_from serve' -l port -d '0 for any free one' -r
complete -c hwdyno -n '__fish_seen_subcommand_from serve' -l listen -d 'address to listen on: others may read' -r
complete -c hwdyno -n '__fish_seen_subcommand_from serve' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from serve' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from serve' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a export -d 'write runs as CSV or Parquet'
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l csv -d 'write CSV' -r
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l parquet -d 'write Parquet' -r
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l openmetrics -d 'write OpenMetrics text' -r
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l overwrite -d 'replace files that hwdyno did not write'
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l with-names -d 'also show host names, serial numbers and users’ folders'
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l ceiling -d 'a limit that you know: "rated read 400 MB/s"' -r
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l store -d 'the Runs: a folder or postgresql://…' -r
complete -c hwdyno -n '__fish_seen_subcommand_from export' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a explain -d 'explain a finding: law, drawing, example, limits'
complete -c hwdyno -n '__fish_seen_subcommand_from explain' -f -a 'physical_ceiling rated_exceeded little rate_times_size unwritten_file compressed_file page_cache direct_refused synchronous_engine depth_not_reached faults cached_writes cache_hidden host_cache contradicts_itself disk_not_reached array_in_cache unverified mislabelled_accelerator unit_slip runs_backwards latency_floor through_page_cache too_fast_for_class too_many_lines more_than_memory on_loopback formula_yields_other memory_by_clock flops_per_core line_rate_in_bytes claim_exceeded rate_not_reached users_wait too_short small_region shared_blocks unequal_jobs client_bound stalls throttled not_steady another_run others_at_work steal cpu_limited io_limit swapping clock_dropped interval_not_reached outlying_repeats load_before link_below_its_best between_runs host_missing hosts_apart straggler scaling unfair slow_pair shared_file knee still_rising saturated load_without_effect best_block_size best_combination snia_not_steady mix_penalty spinning_or_solid network_blackhole network_mtu network_no_link network_virtual_link network_link network_policed network_ends_bound network_window network_loss network_datagram_loss network_bufferbloat network_congestion training_other_data training_faults training_uneven training_too_small training_read_ahead training_cached training_client_bound training_au training_law training_capacity training_plain training_beside_dlio training_beside_loaders load_not_cold cold_start load_gap storage_stops_mattering decode_bound kv_restore images_not_cold images_from_files io_corrupt io_faults io_nothing_done io_client_bound kv_too_few kv_no_room kv_users vector_recall vector_queries serving_faults serving_late serving_client_bound serving_short serving_cached serving_chunks serving_rate prefix_cache serving_capacity serving_limit contention no_contention wrong_result practical_bandwidth write_allocate huge_pages lines_in_flight claimed_cache loaded_latency wrong_node tlb_reach noisy_neighbour wide_clock_drop operands_cost peak_share linpack_share pinned_library costly_setting peer_ratio rolls_over off_the_curve gpu_clock_fell gpu_link_narrow gpu_roofline gpu_pageable gpu_load_waits gpu_load_in_turn gpu_one_way gpu_levels gpu_fits_cache gpu_launch_bound repeats_disagree two_modes modes_nearby'
complete -c hwdyno -n '__fish_seen_subcommand_from explain' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a schema -d 'print the JSON Schema of the Run document'
complete -c hwdyno -n '__fish_seen_subcommand_from schema' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a completion -d 'print shell completion for bash, zsh or fish'
complete -c hwdyno -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'
complete -c hwdyno -n '__fish_seen_subcommand_from completion' -l help -d 'show this help'
complete -c hwdyno -f -n __fish_use_subcommand -a man -d 'print the manual page'
complete -c hwdyno -n '__fish_seen_subcommand_from man' -l write -d 'write page and completions below DIR instead' -r
complete -c hwdyno -n '__fish_seen_subcommand_from man' -l overwrite -d 'replace files that hwdyno did not write'
complete -c hwdyno -n '__fish_seen_subcommand_from man' -l help -d 'show this help'

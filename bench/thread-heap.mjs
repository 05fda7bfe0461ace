// Lets a bench ask each thread of a worker process to collect its garbage and say what its heap holds then. Loaded by
// `--require`, which Node takes along into every thread: that of the workflows is started by Temporal's SDK.
import { getHeapStatistics } from 'node:v8';
import { BroadcastChannel, isMainThread } from 'node:worker_threads';

if (!isMainThread) {
  const asked = new BroadcastChannel('bench-ask-heap');
  asked.onmessage = () => {
    globalThis.gc?.();
    const { used_heap_size: usedBytes } = getHeapStatistics();
    const told = new BroadcastChannel('bench-tell-heap');
    told.postMessage(usedBytes);
    told.close();
  };
  asked.unref();
}

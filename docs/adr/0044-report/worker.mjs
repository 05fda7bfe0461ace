// node worker.mjs ADDRESS QUEUE WORKFLOWS
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';

Runtime.install({ logger: new DefaultLogger('ERROR') });

const [address, taskQueue, workflowsPath] = process.argv.slice(2);
const connection = await NativeConnection.connect({ address });
const worker = await Worker.create({ connection, taskQueue, workflowsPath, stickyQueueScheduleToStartTimeout: '3s' });
process.send('polls');
await worker.run();

/**
 * Replays history files in a process of its own, and says on standard output why each fails: a list of JSON, empty
 * texts where none does.
 *
 * A rejection that nobody handles fails a workflow task by an event of the process, which jest keeps to itself.
 */
import { recordedHistories } from '../../workers/replay/recorded-history.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG } from './corpus.ts';

const options = { bundle: await sharedBundle(), config: CONFIG };
const said: string[] = [];
for await (const { error } of replayHistories(recordedHistories(process.argv.slice(2)), options))
  said.push(error?.message ?? '');
process.stdout.write(JSON.stringify(said));

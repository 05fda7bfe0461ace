/** `countersign catalog`: the stored tools of a server, and who may say what of them. */
import type { Command } from 'commander';
import { examples } from '../examples.ts';
import type { Terminal } from '../terminal.ts';
import { addAllow } from './catalog/allow.ts';
import { addAsk } from './catalog/ask.ts';
import { addConnect } from './catalog/connect.ts';
import { addDecide } from './catalog/decide.ts';
import { addDiff } from './catalog/diff.ts';
import { addDisconnect } from './catalog/disconnect.ts';
import { addExport } from './catalog/export.ts';
import { addImport } from './catalog/import.ts';
import { addList } from './catalog/list.ts';
import { addRefresh } from './catalog/refresh.ts';
import { addShow } from './catalog/show.ts';
import { addSwitches } from './catalog/switch.ts';

const VERBS = [
  addConnect,
  addList,
  addShow,
  addRefresh,
  addDiff,
  addAllow,
  addAsk,
  addSwitches,
  addDecide,
  addExport,
  addImport,
  addDisconnect,
];

export function addCatalog(program: Command, terminal: Terminal): void {
  const catalog = program
    .command('catalog')
    .summary('the stored tools of a server, and who may say what of them')
    .description(
      'The tools of a server as they are stored, with what operators say of each: allow, ask, deny, enable, disable',
    )
    .addHelpText('after', examples('catalog list', 'catalog list files', 'catalog ask files write_file --as ann'));
  for (const addVerb of VERBS) addVerb(catalog, terminal);
}

/** What `--remember` means: how far an approval answers later calls. */
import { Remember } from '../contracts/schemas/decision.ts';
import { parseAs } from '../contracts/schemas/parse.ts';

/** @param text `call`, `tool`, or `arguments:path,owner` */
export function rememberOf(text: string, until: string | undefined): Remember {
  const [scope, named] = text.split(/:(.*)/s, 2);
  const names = named === undefined ? {} : { names: named.split(',') };
  return parseAs(
    Remember,
    { scope, ...names, ...(until === undefined ? {} : { until }) },
    'USAGE',
    'value of --remember (call, tool, or arguments:NAME,NAME)',
  );
}

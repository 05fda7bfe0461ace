/** Every scenario, in the order in which they are recorded. */
import { ASKING, TIMED } from './asking.ts';
import { AUTHORIZING } from './authorizing.ts';
import { AWAITING } from './awaiting.ts';
import { CATALOGS } from './catalogs.ts';
import { CROSSING } from './crossing.ts';
import { EDITING } from './editing.ts';
import { ENDING } from './ending.ts';
import { HELD, HOLDING } from './holding.ts';
import { HOSTED } from './hosting.ts';
import { LINKING, MOVING } from './moving.ts';
import { QUESTIONING } from './questioning.ts';
import { RESOLVING, RESUMING } from './resolving.ts';
import { SIGNED_CATALOG } from './signed-catalog.ts';
import { SIGNED } from './signed.ts';
import { STRETCHING } from './stretching.ts';
import { RULED, TALKING, UNREADABLE } from './talking.ts';
import { TASKS } from './tasks.ts';
import { TELLING } from './telling.ts';
import { TICKETS } from './tickets.ts';
import { UNPROVEN } from './unproven.ts';
import type { Scenario } from './scene.ts';

export const SCENARIOS: readonly Scenario[] = [
  ...ASKING,
  ...TIMED,
  ...EDITING,
  ...MOVING,
  ...ENDING,
  ...CROSSING,
  ...RESOLVING,
  ...RESUMING,
  ...QUESTIONING,
  ...LINKING,
  ...HELD,
  ...HOLDING,
  ...TASKS,
  ...AUTHORIZING,
  ...AWAITING,
  ...HOSTED,
  ...RULED,
  ...TALKING,
  ...SIGNED,
  ...CATALOGS,
  ...SIGNED_CATALOG,
  ...UNREADABLE,
  ...UNPROVEN,
  ...STRETCHING,
  ...TELLING,
  ...TICKETS,
];

/** Finds where a policy names channels of messages, and where it names one that there is not. It loads no channel. */
import type { Config } from '../../contracts/schemas/config.ts';
import { pathText } from '../../contracts/schemas/parse.ts';

/** A place where a policy names a channel. */
interface Route {
  readonly channel: string;
  readonly path: string;
}

/**
 * Returns a route to nowhere: it would tell nobody, and no one would miss it.
 * @param channels names of those there are
 */
export function routeToNowhere(
  { notify, rules = [] }: Config['policy'],
  channels: readonly string[],
): Route | undefined {
  const lists = [
    { notify, path: ['policy'] },
    ...rules.map((rule, index) => ({ notify: rule.notify, path: ['policy', 'rules', index] })),
  ];
  const routes = lists.flatMap(({ notify: own = [], path }) =>
    own.map(({ channel }, index) => ({ channel, path: pathText([...path, 'notify', index, 'channel']) })),
  );
  return routes.find(({ channel }) => !channels.includes(channel));
}

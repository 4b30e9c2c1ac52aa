/** A plugin of Stryker: leaves the text of errors and of the log as it is. */
const isLog = ({ callee }) =>
  /^(log|warn|report|note)$/.test(callee?.property?.name ?? callee?.name ?? '');

export const strykerPlugins = [
  {
    kind: 'Ignore',
    name: 'messages',
    value: {
      shouldIgnore: (path) =>
        path.isThrowStatement() || (path.isCallExpression() && isLog(path.node))
          ? 'the text of an error or of the log'
          : undefined,
    },
  },
];

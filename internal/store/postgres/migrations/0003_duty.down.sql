DROP TABLE {{schema}}.duties;
